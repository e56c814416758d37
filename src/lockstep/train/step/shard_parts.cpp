#include "lockstep/train/step/shard_parts.h"

#include <ATen/Functions.h>

namespace lockstep::train {

data::Shard part_of_shard(const data::Shard& shard, Range part) {
  const auto rows = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.narrow(0, part.begin, part.count()) : tensor;
  };
  return {.index = shard.index,
          .first = shard.first + part.begin,
          .images = rows(shard.images),
          .target = rows(shard.target),
          .count = part.count(),
          .input = rows(shard.input),
          .lengths = rows(shard.lengths),
          .continues = rows(shard.continues),
          .mixed_target = rows(shard.mixed_target),
          .target_share = rows(shard.target_share),
          .class_weights = shard.class_weights};
}

std::vector<at::Tensor> part_of_rows(const std::vector<at::Tensor>& all, Range part) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& tensor : all) rows.push_back(tensor.narrow(0, part.begin, part.count()));
  return rows;
}

void append_rows(std::vector<at::Tensor>& all, const std::vector<at::Tensor>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (all.size() <= i) {
      all.push_back(rows[i]);
    } else {
      all[i] = at::cat({all[i], rows[i]});
    }
  }
}

}  // namespace lockstep::train
