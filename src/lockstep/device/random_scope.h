// Makes random operators of LibTorch repeatable, whichever thread they run on.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

namespace lockstep::device {

/// While it lives, every random operator that this thread calls without a generator (dropout, rand, an
/// initialiser's normal_) draws from this scope's generator, not from the one that the whole process shares.
/// Scopes nest; the innermost one is used. LibTorch's own layers, like Dropout, pass no generator, so the
/// operators are intercepted at the head of its dispatcher: every operator whose schema has an optional
/// generator, on a dispatch key that is included for this thread only. On a GPU it is the GPU's own
/// generator, which all scopes there share. They take turns: each one first seeds it (reseed) and then draws.
class RandomScope {
 public:
  RandomScope(c10::Device device, uint64_t seed);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

  /// Restarts with another seed, for example for the next shard. On a GPU no other scope does so before the
  /// lock is released, so hold the lock until all numbers are drawn. On a CPU the lock is empty.
  [[nodiscard]] std::unique_lock<std::mutex> reseed(uint64_t seed);

 private:
  struct Included;
  at::Generator generator_;
  at::Generator* outer_;
  std::unique_ptr<Included> included_;
};

}  // namespace lockstep::device
