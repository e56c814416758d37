// Memory that a thread keeps from one image to the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lockstep::data {

/// Made thread_local. A large piece is given back at the next call.
class ThreadBuffer {
 public:
  /// Valid until the next call. What it holds is anything.
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
