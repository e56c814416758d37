// How much memory tensors take.
#pragma once

#include <cstdint>
#include <memory>

namespace lockstep::device {

/// Counts the bytes of tensors, on any device, that this thread takes and gives back while the object lives.
/// One at a time on a thread; tensors that were there before must not end while it lives.
class TensorMeter {
 public:
  TensorMeter();
  ~TensorMeter();
  TensorMeter(const TensorMeter&) = delete;
  TensorMeter& operator=(const TensorMeter&) = delete;

  /// Bytes now, over those when the object was made.
  int64_t now() const;
  /// The most at any time since the last call of this.
  int64_t take_most();

 private:
  struct Counter;
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

}  // namespace lockstep::device
