#include "lockstep/train/step/shard_result.h"

#include <algorithm>
#include <utility>

#include <ATen/Functions.h>

#include "lockstep/base/share.h"
#include "lockstep/nn/losses.h"
#include "lockstep/train/step/plain_tensor.h"

namespace lockstep::train {
namespace {

// A row for each piece of each shard: its samples, its targets, loss, correct, statistics. The rows of a
// shard are zero on the ranks that did not compute it, so adding the ranks' tables changes no bit.
at::Tensor table_of(const std::vector<ShardResult>& results, int64_t count, int64_t pieces, int64_t width) {
  const at::Tensor table = at::zeros({count * pieces, 2 + width}, at::kDouble);
  std::vector<at::Tensor> unread;
  for (int64_t i = 0; i < count; ++i)
    unread.insert(unread.end(), results[static_cast<size_t>(i)].unread.begin(),
                  results[static_cast<size_t>(i)].unread.end());
  if (unread.empty()) return table;
  const at::Tensor host = at::stack(unread).cpu();
  const double* from = host.const_data_ptr<double>();
  for (int64_t i = 0; i < count; ++i) {
    double* row = table.mutable_data_ptr<double>() + i * pieces * (2 + width);
    for (const auto [samples, targets] : results[static_cast<size_t>(i)].unread_counts) {
      row[0] = static_cast<double>(samples);
      row[1] = static_cast<double>(targets);
      std::copy_n(from, width, row + 2);
      row += 2 + width;
      from += width;
    }
  }
  return table;
}

void add_moments(std::vector<Moments>& left, std::vector<Moments> right) {
  if (left.empty()) return left.swap(right);
  for (size_t i = 0; i < right.size(); ++i) left[i] = pooled(std::move(left[i]), right[i]);
}

void add_result(ShardResult& left, ShardResult right) {
  left.loss += right.loss;
  left.correct += right.correct;
  left.count += right.count;
  left.targets += right.targets;
  add_moments(left.moments, std::move(right.moments));
}

}  // namespace

int64_t target_count(const data::Shard& shard) {
  if (!is_plain(shard.target, at::kLong)) return shard.target.ne(nn::kNoClass).sum().item<int64_t>();
  const auto* target = shard.target.const_data_ptr<int64_t>();
  return shard.target.numel() - std::count(target, target + shard.target.numel(), nn::kNoClass);
}

void reduce_results(std::vector<ShardResult>& results, int64_t count, int64_t pieces,
                    const std::vector<BatchNormInfo>& norms, comm::Communicator& comm) {
  int64_t width = 2;
  for (const BatchNormInfo& norm : norms) width += 2 * norm.channels;
  const at::Tensor table = table_of(results, count, pieces, width);
  comm.all_reduce({table}, comm::Reduction::sum);
  const double* row = table.const_data_ptr<double>();
  for (int64_t i = 0; i < count; ++i) {
    ShardResult result;
    for (int64_t piece = 0; piece < pieces; ++piece, row += 2 + width) {
      const auto samples = static_cast<int64_t>(row[0]);
      if (samples == 0) continue;
      result.count += samples;
      result.targets += static_cast<int64_t>(row[1]);
      result.loss += row[2];
      result.correct += static_cast<int64_t>(row[3]);
      add_moments(result.moments, moments_from(norms, row + 4, samples));
    }
    results[static_cast<size_t>(i)] = std::move(result);
  }
}

ShardResult folded(const std::vector<ShardResult>& results, int64_t count) {
  return fold_tree(
      0, count, [&](int64_t shard) { return results[static_cast<size_t>(shard)]; },
      [](ShardResult& left, ShardResult right) { add_result(left, std::move(right)); });
}

}  // namespace lockstep::train
