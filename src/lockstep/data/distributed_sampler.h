// The sample order of torch.utils.data.DistributedSampler, for comparisons with PyTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::data {

/// The order in which DistributedSampler(drop_last=False) arranges `count` samples before it divides them:
/// replica r of n gets elements r, r + n, r + 2 n, ... It is torch.randperm with a generator of seed `seed`
/// (DistributedSampler's seed + epoch), or 0..count-1 without a seed (shuffle=False). The head is repeated
/// until the length is a multiple of `replicas`.
std::vector<int64_t> distributed_samples(int64_t count, int64_t replicas, std::optional<int64_t> seed);

}  // namespace lockstep::data
