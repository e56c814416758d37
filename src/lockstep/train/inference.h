// A trained network run over a dataset by all workers.
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>

#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/train/predict.h"
#include "lockstep/train/replica.h"

namespace lockstep::train {

/// Called by several threads at once, each with its own replica in evaluation mode; `first` is the place of the shard's first sample in the dataset.
using ShardWork = std::function<void(Replica& replica, const data::Shard& shard, int64_t first)>;

/// Every shard of the dataset in order, the same shards for any number of workers. Options as for predict. feature_steps: so many first layers are what
/// Replica::features runs. Throws cancelled after a stop.
void for_each_shard(const Model& model, const data::Dataset& dataset, const Options& options, size_t feature_steps, std::stop_token stop, const ShardWork& work);

}  // namespace lockstep::train
