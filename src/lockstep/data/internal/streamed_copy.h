// Copies many bytes that will not be read again soon.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include <emmintrin.h>

namespace lockstep::data {

/// A mini-batch smaller than this is still in a cache when it is used.
constexpr size_t kStreamedBytes = size_t{64} << 10;

/// Copies large images past the caches: a cache line of the destination is written without being read first,
/// which saves a third of the memory traffic.
inline void streamed_copy(const uint8_t* from, std::span<uint8_t> to) {
  if (to.size() < kStreamedBytes) {
    std::memcpy(to.data(), from, to.size());
    return;
  }
  constexpr size_t kLine = 64;
  const size_t head = (kLine - reinterpret_cast<uintptr_t>(to.data()) % kLine) % kLine;
  std::memcpy(to.data(), from, head);
  size_t at = head;
  for (; at + kLine <= to.size(); at += kLine) {
    for (size_t part = 0; part < kLine; part += sizeof(__m128i)) {
      const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at + part));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to.data() + at + part), values);
    }
  }
  _mm_sfence();
  std::memcpy(to.data() + at, from + at, to.size() - at);
}

}  // namespace lockstep::data
