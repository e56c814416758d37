// The memory that tensors take.
#pragma once

#include <cstdint>
#include <memory>

namespace lockstep::device {

/// Counts the bytes of tensors, on any device, that this thread allocates and frees while the object lives.
/// One at a time on a thread; tensors that existed before must not be freed while it lives.
class TensorMeter {
 public:
  TensorMeter();
  ~TensorMeter();
  TensorMeter(const TensorMeter&) = delete;
  TensorMeter& operator=(const TensorMeter&) = delete;

  /// Current bytes, minus those when the object was made.
  int64_t now() const;
  /// The peak since the last call of this function.
  int64_t take_most();

 private:
  struct Counter;
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

}  // namespace lockstep::device
