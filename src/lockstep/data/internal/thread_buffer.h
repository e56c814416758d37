// Memory that a thread reuses for its next image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lockstep::data {

/// For thread_local objects. A large block is freed at the next call.
class ThreadBuffer {
 public:
  /// Valid until the next call. The contents are undefined.
  std::span<uint8_t> of(size_t bytes) {
    constexpr size_t kKeptBytes = size_t{16} << 20;
    if (capacity_ < bytes || capacity_ > kKeptBytes) {
      memory_.reset();
      capacity_ = 0;
      memory_ = std::make_unique_for_overwrite<uint8_t[]>(bytes);
      capacity_ = bytes;
    }
    return {memory_.get(), bytes};
  }

 private:
  std::unique_ptr<uint8_t[]> memory_;
  size_t capacity_ = 0;
};

}  // namespace lockstep::data
