// Random operators of LibTorch that repeat, whichever thread they run on.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

namespace lockstep::device {

/// While it lives, every random operator that this thread calls without a generator of its own (dropout,
/// rand, an initialiser's normal_) draws from a generator of this scope, not from the one that the whole
/// process shares. Scopes nest; the inner one counts. LibTorch's own layers, like Dropout, take no generator,
/// so the operators are met at the head of its dispatcher: every operator whose schema has an optional
/// generator, on a dispatch key that is only included for this thread. On a GPU that is the GPU's own
/// generator, which all scopes there share: who draws takes turns with the others, and seeds first (reseed).
class RandomScope {
 public:
  RandomScope(c10::Device device, uint64_t seed);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

  /// Starts over with another seed, e.g. of the next shard. On a GPU no other scope does before the lock is
  /// given up, so hold it until all is drawn; elsewhere it is empty.
  [[nodiscard]] std::unique_lock<std::mutex> reseed(uint64_t seed);

 private:
  struct Included;
  at::Generator generator_;
  at::Generator* outer_;
  std::unique_ptr<Included> included_;
};

}  // namespace lockstep::device
