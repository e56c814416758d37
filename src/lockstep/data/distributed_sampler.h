// The order of torch.utils.data.DistributedSampler, for comparisons with PyTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::data {

/// What DistributedSampler(drop_last=False) draws out of `count` samples, before it deals them out: replica r
/// of n has elements r, r + n, r + 2 n, ... torch.randperm with a generator of seed `seed`
/// (DistributedSampler's seed + epoch), or 0..count-1 without one (shuffle=False); the head is repeated until
/// the number is a multiple of `replicas`.
std::vector<int64_t> distributed_samples(int64_t count, int64_t replicas, std::optional<int64_t> seed);

}  // namespace lockstep::data
