#include "lockstep/kernels/sample_seeds.h"

#include <utility>

#include <ATen/Functions.h>

#include "lockstep/base/seed.h"

namespace lockstep::kernels {
namespace {

thread_local SampleSeeds* innermost_seeds = nullptr;

void fill_layer(uint64_t layer_seed, int64_t first, const at::Tensor& seeds) {
  auto* seed = seeds.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < seeds.numel(); ++i)
    seed[i] = static_cast<int64_t>(seed_of({layer_seed, static_cast<uint64_t>(first + i)}));
}

at::Tensor seeds_of_layer(uint64_t layer_seed, int64_t first, int64_t samples) {
  at::Tensor seeds = at::empty({samples}, at::kLong);
  fill_layer(layer_seed, first, seeds);
  return seeds;
}

}  // namespace

SampleSeeds::SampleSeeds(uint64_t seed, int64_t first_sample)
    : seed_(seed), first_(first_sample), outer_(std::exchange(innermost_seeds, this)) {}

SampleSeeds::SampleSeeds(at::Tensor table)
    : table_(std::move(table)), outer_(std::exchange(innermost_seeds, this)) {}

SampleSeeds::~SampleSeeds() { innermost_seeds = outer_; }

at::Tensor SampleSeeds::table(uint64_t seed, int64_t first_sample, int64_t layers, int64_t samples) {
  at::Tensor table = at::empty({layers, samples}, at::kLong);
  for (int64_t layer = 0; layer < layers; ++layer)
    fill_layer(seed_of({seed, static_cast<uint64_t>(layer)}), first_sample, table[layer]);
  return table;
}

at::Tensor SampleSeeds::next_layer(int64_t samples, at::Device device) {
  if (innermost_seeds == nullptr) {
    const int64_t seed = at::empty({}, at::kLong).random_().item<int64_t>();
    return seeds_of_layer(static_cast<uint64_t>(seed), 0, samples).to(device);
  }
  SampleSeeds& here = *innermost_seeds;
  const int64_t layer = here.layers_++;
  if (here.table_.defined()) return here.table_[layer];
  return seeds_of_layer(seed_of({here.seed_, static_cast<uint64_t>(layer)}), here.first_, samples)
      .to(device, at::kLong, /*non_blocking=*/true);
}

}  // namespace lockstep::kernels
