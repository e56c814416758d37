#include "lockstep/kernels/shards_together.h"

#include <algorithm>
#include <utility>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"

namespace lockstep::kernels {
namespace {

thread_local ShardsTogether* innermost_together = nullptr;

NormGroups each_alone(int64_t count) {
  NormGroups groups;
  for (int64_t shard = 0; shard < count; ++shard) groups.shards.push_back(single(shard));
  return groups;
}

}  // namespace

ShardsTogether::ShardsTogether(int64_t count) : ShardsTogether(count, each_alone(count)) {}

ShardsTogether::ShardsTogether(int64_t count, NormGroups groups)
    : count_(count), groups_(std::move(groups)), outer_(std::exchange(innermost_together, this)) {}

ShardsTogether::~ShardsTogether() { innermost_together = outer_; }

int64_t ShardsTogether::count() { return innermost_together == nullptr ? 1 : innermost_together->count_; }

const NormGroups& ShardsTogether::groups() {
  static const NormGroups alone = each_alone(1);
  return innermost_together == nullptr ? alone : innermost_together->groups_;
}

void ShardsTogether::mix() {
  if (innermost_together == nullptr) return;
  innermost_together->mixed_ = true;
  if (innermost_together->count_ > 1)
    throw Error(ErrorCode::internal, "a layer that takes one shard at a time was given " +
                                         std::to_string(innermost_together->count_));
}

void ShardsTogether::keep_statistics(const at::Tensor& running_mean, const at::Tensor& running_variance) {
  if (count() == 1) return;
  innermost_together->keep(running_mean);
  innermost_together->keep(running_variance);
}

void ShardsTogether::keep(const at::Tensor& buffer) {
  Statistics& statistics = statistics_[buffer.const_data_ptr()];
  if (!statistics.rows.defined()) statistics.rows = at::empty({count_, buffer.numel()}, buffer.options());
  const int64_t shard = statistics.kept++;
  if (shard == count_) throw Error(ErrorCode::internal, "a batch norm was called twice in a pass");
  if (buffer.is_cpu() && buffer.is_contiguous() && buffer.scalar_type() == at::kFloat) {
    std::copy_n(buffer.const_data_ptr<float>(), buffer.numel(),
                statistics.rows.mutable_data_ptr<float>() + shard * buffer.numel());
  } else {
    statistics.rows[shard].copy_(buffer);
  }
}

at::Tensor shard_by_shard(const at::Tensor& batch,
                          const std::function<at::Tensor(const at::Tensor& shard)>& run) {
  const int64_t count = ShardsTogether::count();
  if (count == 1) return run(batch);
  std::vector<at::Tensor> results = batch.chunk(count);
  const ShardsTogether one(1);
  for (at::Tensor& shard : results) shard = run(shard);
  return at::cat(results);
}

void add_moments(NormSums& left, const NormSums& right) {
  const size_t channels = left.size() / 2;
  const double count = left[0] + right[0], part = right[0] / count, weight = left[0] * part;
  for (size_t c = 1; c <= channels; ++c) {
    const double delta = right[c] - left[c];
    left[c] += delta * part;
    left[channels + c] += right[channels + c] + delta * delta * weight;
  }
  left[0] = count;
}

void add_sums(NormSums& left, const NormSums& right) {
  for (size_t i = 0; i < left.size(); ++i) left[i] += right[i];
}

ParameterGradients& ParameterGradients::operator+=(const ParameterGradients& other) {
  if (weight.defined()) weight.add_(other.weight);
  if (bias.defined()) bias.add_(other.bias);
  return *this;
}

}  // namespace lockstep::kernels
