#include "lockstep/kernels/sample_seeds.h"

#include <utility>

#include <ATen/Functions.h>

#include "lockstep/base/seed.h"

namespace lockstep::kernels {
namespace {

thread_local SampleSeeds* innermost_seeds = nullptr;

}  // namespace

uint64_t LayerSeeds::of(int64_t index) const { return seed_of({seed, static_cast<uint64_t>(first + index)}); }

SampleSeeds::SampleSeeds(uint64_t seed, int64_t first_sample)
    : seed_(seed), first_(first_sample), outer_(std::exchange(innermost_seeds, this)) {}

SampleSeeds::~SampleSeeds() { innermost_seeds = outer_; }

LayerSeeds SampleSeeds::next_layer() {
  if (innermost_seeds == nullptr) {
    const int64_t seed = at::empty({}, at::kLong).random_().item<int64_t>();
    return {static_cast<uint64_t>(seed), 0};
  }
  SampleSeeds& here = *innermost_seeds;
  return {seed_of({here.seed_, here.layers_++}), here.first_};
}

}  // namespace lockstep::kernels
