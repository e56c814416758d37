// Random numbers of layers that treat each sample alone, such as dropout: a function of the sample and not of
// the shard, so that several shards can be computed as one batch.
#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// The seeds of one layer in one pass.
struct LayerSeeds {
  uint64_t seed;
  int64_t first;  ///< the place in the mini-batch of the first sample of the batch

  /// The seed of sample `index` of the batch.
  uint64_t of(int64_t index) const;
};

/// While it lives, the random layers of a forward pass on this thread draw for each sample from `seed`, the
/// number of random layers before it in the pass, and the sample's place in the mini-batch. first_sample: the
/// place of the batch's first sample.
class SampleSeeds {
 public:
  SampleSeeds(uint64_t seed, int64_t first_sample);
  ~SampleSeeds();
  SampleSeeds(const SampleSeeds&) = delete;
  SampleSeeds& operator=(const SampleSeeds&) = delete;

  /// Of the next random layer of the pass. Outside of any scope: from a number of the thread's generator.
  static LayerSeeds next_layer();

 private:
  uint64_t seed_;
  int64_t first_;
  uint64_t layers_ = 0;
  SampleSeeds* outer_;
};

}  // namespace lockstep::kernels
