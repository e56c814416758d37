// Parts of a shard, and of the rows that belong to its samples.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"
#include "lockstep/data/mini_batch_queue.h"

namespace lockstep::train {

/// The samples `part` of a shard, with its index.
data::Shard part_of_shard(const data::Shard& shard, Range part);

/// Rows `part` of each tensor [b,...].
std::vector<at::Tensor> part_of_rows(const std::vector<at::Tensor>& all, Range part);

/// Appends rows to each tensor; to none if there are none yet.
void append_rows(std::vector<at::Tensor>& all, const std::vector<at::Tensor>& rows);

}  // namespace lockstep::train
