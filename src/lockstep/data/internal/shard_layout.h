// The shards of a mini-batch: how many there are, which samples they have, and which worker has them.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/data/mini_batch_queue.h"

namespace lockstep::data {

/// The number of shards of a mini-batch of `count` samples.
int64_t shards_of(const QueueOptions& options, int64_t count);

/// The samples of one shard, counted from the mini-batch's first.
Range shard_range(const QueueOptions& options, int64_t count, int64_t shard_count, int64_t index);

/// A worker's shards. Shards of fixed size keep their worker; a smaller mini-batch has fewer of them.
Range owned_shards(const QueueOptions& options, int64_t shard_count, Share share);

/// The worker's shards as views of `whole`, which has all their samples.
///   owned  the worker's shards
///   batch  its counts are read
std::vector<Shard> cut_into_shards(const Shard& whole, Range owned, const QueueOptions& options,
                                   const Batch& batch);

}  // namespace lockstep::data
