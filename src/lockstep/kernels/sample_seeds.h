// Random numbers of layers that treat each sample alone, such as dropout: a function of the sample and not of
// the shard, so that several shards can be computed as one batch or side by side.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

/// While it lives, the random layers of a forward pass on this thread draw for each sample from `seed`, the
/// number of random layers before it in the pass, and the sample's place in the mini-batch.
class SampleSeeds {
 public:
  /// first_sample: the place of the batch's first sample.
  SampleSeeds(uint64_t seed, int64_t first_sample);
  /// The same numbers out of a table, which a recorded pass reads each time: int64 [layers,b], on its device.
  explicit SampleSeeds(at::Tensor table);
  ~SampleSeeds();
  SampleSeeds(const SampleSeeds&) = delete;
  SampleSeeds& operator=(const SampleSeeds&) = delete;

  /// The table of a pass, on the host.
  static at::Tensor table(uint64_t seed, int64_t first_sample, int64_t layers, int64_t samples);

  /// int64 [samples] on this device: the seeds of the next random layer of the pass, one for each sample of
  /// the batch. Outside of any scope: from a number of the thread's generator.
  static at::Tensor next_layer(int64_t samples, at::Device device);

 private:
  uint64_t seed_ = 0;
  int64_t first_ = 0;
  at::Tensor table_ = {};
  int64_t layers_ = 0;
  SampleSeeds* outer_;
};

}  // namespace lockstep::kernels
