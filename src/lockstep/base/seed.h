// Random numbers that are pure functions of their purpose: the same on every machine, thread and worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace lockstep {

/// One seed from several numbers, e.g. seed_of({seed, epoch, index}); the order matters.
uint64_t seed_of(std::initializer_list<uint64_t> parts);

/// A small generator (SplitMix64, Steele et al. 2014) for data order, splits and augmentation. A value type:
/// copy it to repeat it.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  /// Uniform in [0, limit), limit > 0, without bias (Lemire 2019).
  uint64_t below(uint64_t limit);
  /// Uniform in [0, 1) with 53 bits.
  double uniform();

 private:
  uint64_t state_;
};

/// A permutation of 0..count-1 (Fisher-Yates), a pure function of the seed.
std::vector<int64_t> permutation(int64_t count, uint64_t seed);

}  // namespace lockstep
