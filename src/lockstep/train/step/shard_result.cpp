#include "lockstep/train/step/shard_result.h"

#include <algorithm>
#include <utility>

#include <ATen/Functions.h>

#include "lockstep/base/share.h"
#include "lockstep/nn/losses.h"
#include "lockstep/train/step/plain_tensor.h"

namespace lockstep::train {
namespace {

// Of each piece of the shards [0, count), on the host.
std::vector<at::Tensor> rows_read(const std::vector<ShardResult>& results, int64_t count) {
  std::vector<at::Tensor> rows;
  for (int64_t i = 0; i < count; ++i) {
    const auto& unread = results[static_cast<size_t>(i)].unread;
    rows.insert(rows.end(), unread.begin(), unread.end());
  }
  const bool on_device = !rows.empty() && !rows.front().is_cpu();
  return on_device ? at::stack(rows).cpu().unbind() : rows;
}

// A row for each piece of each shard: its samples, its targets, loss, correct, statistics. The rows of a
// shard are zero on the ranks that did not compute it, so adding the ranks' tables changes no bit.
void fill_table(const at::Tensor& table, const std::vector<ShardResult>& results, int64_t count,
                int64_t pieces) {
  const int64_t width = table.size(1);
  const std::vector<at::Tensor> rows = rows_read(results, count);
  auto read = rows.begin();
  for (int64_t i = 0; i < count; ++i) {
    double* row = table.mutable_data_ptr<double>() + i * pieces * width;
    double* const end = row + pieces * width;
    for (const auto [samples, targets] : results[static_cast<size_t>(i)].unread_counts) {
      row[0] = static_cast<double>(samples);
      row[1] = static_cast<double>(targets);
      std::copy_n((read++)->contiguous().const_data_ptr<double>(), width - 2, row + 2);
      row += width;
    }
    std::fill(row, end, 0.0);
  }
}

}  // namespace

int64_t target_count(const data::Shard& shard) {
  if (!is_plain(shard.target, at::kLong)) return shard.target.ne(nn::kNoClass).sum().item<int64_t>();
  const auto* target = shard.target.const_data_ptr<int64_t>();
  return shard.target.numel() - std::count(target, target + shard.target.numel(), nn::kNoClass);
}

void reduce_results(std::vector<ShardResult>& results, int64_t count, int64_t pieces,
                    const std::vector<BatchNormInfo>& norms, comm::Communicator& comm, at::Tensor* memory) {
  int64_t width = 4;
  for (const BatchNormInfo& norm : norms) width += 2 * norm.channels;
  at::Tensor own;
  at::Tensor& table = memory == nullptr ? own : *memory;
  if (!table.defined() || table.size(0) != count * pieces || table.size(1) != width)
    table = at::empty({count * pieces, width}, at::kDouble);
  fill_table(table, results, count, pieces);
  comm.all_reduce({table}, comm::Reduction::sum);
  const double* row = table.const_data_ptr<double>();
  for (int64_t i = 0; i < count; ++i) {
    ShardResult result;
    for (int64_t piece = 0; piece < pieces; ++piece, row += width) {
      const auto samples = static_cast<int64_t>(row[0]);
      if (samples == 0) continue;
      result.count += samples;
      result.targets += static_cast<int64_t>(row[1]);
      result.loss += row[2];
      result.correct += static_cast<int64_t>(row[3]);
      result.moments = pooled(norms, std::move(result.moments), moments_from(norms, row + 4, samples));
    }
    results[static_cast<size_t>(i)] = std::move(result);
  }
}

ShardResult folded(const std::vector<ShardResult>& results, int64_t count,
                   const std::vector<BatchNormInfo>& norms) {
  return fold_tree(
      0, count, [&](int64_t shard) { return results[static_cast<size_t>(shard)]; },
      [&](ShardResult& left, ShardResult right) {
        left.loss += right.loss;
        left.correct += right.correct;
        left.count += right.count;
        left.targets += right.targets;
        left.moments = pooled(norms, std::move(left.moments), std::move(right.moments));
      });
}

}  // namespace lockstep::train
