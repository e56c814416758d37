#include "lockstep/train/custom/shard_sums.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/share.h"
#include "lockstep/device/random_scope.h"
#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/train/step/bad_loss.h"
#include "lockstep/train/step/batch_norm.h"
#include "lockstep/train/custom/internal/model_parts.h"
#include "lockstep/train/step/shard_runner.h"

namespace lockstep::train {
namespace {

constexpr int64_t kCountColumn = 0;
constexpr int64_t kLossColumn = 1;
constexpr int64_t kStatisticsColumn = 2;

// The stack returns to its model when the last owner is gone.
std::shared_ptr<comm::NodeStack> take_stack(const BuiltModel& model) {
  auto& parts = model.parts();
  std::unique_ptr<comm::NodeStack> stack;
  if (parts.spare_stacks.empty()) {
    stack = std::make_unique<comm::NodeStack>(parts.weights.element_count(), parts.weights.type(),
                                              parts.weights.device());
  } else {
    stack = std::move(parts.spare_stacks.back());
    parts.spare_stacks.pop_back();
  }
  return {stack.release(), [model](comm::NodeStack* used) { model.parts().spare_stacks.emplace_back(used); }};
}

// Without ShardOutput::chosen_device a queue chooses the GPU by its rank. The rank is 0 for every worker that
// is the only one of its group, whichever GPU it has.
data::Shard on_device(data::Shard shard, at::Device device) {
  for (at::Tensor* tensor : {&shard.input, &shard.target}) {
    if (tensor->defined()) *tensor = tensor->to(device);
  }
  return shard;
}

void check_loss(const at::Tensor& loss) {
  if (loss.defined() && loss.numel() == 1 && loss.requires_grad()) return;
  throw Error(ErrorCode::invalid_option,
              !loss.defined() ? "the model's loss gave no tensor"
              : loss.numel() != 1
                  ? "the model's loss gave a tensor " + c10::str(loss.sizes()) + ", not one number"
                  : std::string("the model's loss has no graph back to the learnables"),
              "give the sum of the losses of the shard's samples, as "
              "nn::cross_entropy_sum(model.forward(shard.input), shard.target) does");
}

// double [1 + values] on the model's device.
at::Tensor loss_and_statistics(const at::Tensor& loss, const at::Tensor& statistics) {
  const at::Tensor own = loss.detach().to(at::kDouble).flatten();
  return statistics.defined() ? at::cat({own, statistics.flatten()}) : own;
}

int64_t statistics_width(const std::vector<BatchNormInfo>& norms) {
  int64_t width = 0;
  for (const BatchNormInfo& norm : norms) width += 2 * norm.channels;
  return width;
}

// The exchange would take it into the weights of every rank.
void check_finite(double loss, const data::Batch& batch, const data::Shard& shard) {
  if (std::isfinite(loss)) return;
  throw bad_loss(loss, batch.iteration + 1, "shard " + std::to_string(shard.index),
                 "try a smaller learning rate; if no step has changed the weights yet, look for values "
                 "that are not finite in the data, the first weights and the network");
}

at::Tensor rows_of(const data::Batch& batch, const std::vector<at::Tensor>& measured,
                   const std::vector<BatchNormInfo>& norms) {
  const at::Tensor rows = at::empty(
      {static_cast<int64_t>(measured.size()), kStatisticsColumn + statistics_width(norms)}, at::kDouble);
  if (measured.empty()) return rows;
  rows.narrow(1, kLossColumn, rows.size(1) - kLossColumn).copy_(at::stack(measured));
  auto values = rows.accessor<double, 2>();
  for (size_t i = 0; i < batch.shards.size(); ++i) {
    auto row = values[static_cast<int64_t>(i)];
    check_finite(row[kLossColumn], batch, batch.shards[i]);
    row[kCountColumn] = static_cast<double>(batch.shards[i].count);
  }
  return rows;
}

// The values of all shards, folded in the tree.
struct Folded {
  double count = 0;
  double loss = 0;
  Moments moments = {};
};

Folded fold_rows(const at::Tensor& rows, const std::vector<BatchNormInfo>& norms, StateAggregation state) {
  const auto combine = state == StateAggregation::pooled ? pooled : averaged;
  return fold_tree(
      0, rows.size(0),
      [&](int64_t shard) {
        const double* row = rows.const_data_ptr<double>() + shard * rows.size(1);
        return Folded{row[kCountColumn], row[kLossColumn],
                      moments_from(norms, row + kStatisticsColumn, static_cast<int64_t>(row[kCountColumn]))};
      },
      [&](Folded& left, Folded right) {
        left.count += right.count;
        left.loss += right.loss;
        left.moments = combine(norms, std::move(left.moments), std::move(right.moments));
      });
}

// The divisor of sums. Pieces at the end of streams may have no target; their loss and gradient are zero.
double divisor(double targets) { return std::max(targets, 1.0); }

// Divides the gradient, which is equal on all ranks, by the scale, and chooses the model's next scale. False
// if the step is skipped. The scale is a power of two, so no bit changes.
bool unscale(const ShardSums& sums, at::Tensor& gradient) {
  auto& parts = sums.model.parts();
  if (parts.options.precision != Precision::fp16_mixed) return true;
  const bool finite = gradient.isfinite().all().item<bool>();
  parts.loss_scale = next(parts.loss_scale, !finite, parts.exchanges);
  if (finite) gradient = gradient.mul(1 / sums.loss_scale);
  return finite;
}

// The results of the mini-batch from all ranks' rows. Updates the model's running statistics.
MiniBatchSums finish(pool::Worker& worker, const ShardSums& sums, at::Tensor gradient, double targets,
                     StateAggregation state) {
  auto& parts = sums.model.parts();
  const Folded all = fold_rows(worker.comm().cat(sums.rows).contiguous(), parts.norms, state);
  ++parts.exchanges;  // only when nothing can end the step any more: a run that is cancelled looks at it
  if (!parts.norms.empty()) apply_moments(parts.weights, parts.norms, all.moments);
  // A rank without shards has the sum on the CPU if its group exchanges through the host.
  gradient = gradient.to(parts.weights.device());
  const bool made = unscale(sums, gradient);
  return {.loss = all.loss / divisor(targets),
          .gradients = made ? parts.weights.views(gradient) : std::vector<at::Tensor>(),
          .count = static_cast<int64_t>(all.count),
          .memory = sums.gradients,
          .skipped = !made};
}

}  // namespace

ShardSums loss_and_gradients(const BuiltModel& model, const data::Batch& batch, const ModelLoss& loss) {
  if (batch.target_count == 0 && !batch.shards.empty() && !batch.shards.front().lengths.defined()) {
    throw Error(ErrorCode::invalid_option,
                "a mini-batch of " + counted(batch.global_count, "image") + " has no target to learn from",
                "label the images; a data::Batch made by hand needs its target_count");
  }
  auto& parts = model.parts();
  const at::Device device = parts.weights.device();
  auto parameters = model.parameters();
  ShardSums sums{model, take_stack(model), batch.shard_count, batch.target_count, {}, model.loss_scale()};
  sums.gradients->begin(batch.shard_count);
  sums.gradients->leave_held();
  parts.begin_training();
  device::RandomScope random(device, 0);
  const kernels::DirectKernels convolutions(parts.options.kernels == Kernels::auto_);
  std::vector<at::Tensor> measured;
  for (const data::Shard& shard : batch.shards) {
    for (at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
    const auto turn =
        random.reseed(shard_seed(parts.options.seed, batch.iteration, shard.index, /*piece=*/0));
    at::Tensor sum;
    {
      const AutocastScope autocast(parts.options.precision, device.type(), WeightCasts::renew);
      const kernels::SampleSeeds seeds(step_seed(parts.options.seed, batch.iteration), shard.first);
      sum = loss(on_device(shard, device));
    }
    check_loss(sum);
    measured.push_back(loss_and_statistics(sum, parts.shard_statistics.statistics()));
    sum.backward(at::full_like(sum, sums.loss_scale / divisor(static_cast<double>(batch.target_count))));
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
    sums.gradients->take(single(shard.index), [&](const at::Tensor& buffer, bool add) {
      parts.weights.put(gradients, buffer, add);
    });
  }
  // They are the last shard's. An optimizer that read them would follow one shard, a different one on each
  // rank.
  for (at::Tensor& parameter : parameters) parameter.mutable_grad().reset();
  sums.rows = rows_of(batch, measured, parts.norms);
  return sums;
}

MiniBatchSums exchange(pool::Worker& worker, const ShardSums& sums, StateAggregation state) {
  return finish(worker, sums, worker.comm().reduce_tree(sums.gradients->nodes(), sums.shard_count),
                static_cast<double>(sums.target_count), state);
}

MiniBatchSums exchange_ranks(pool::Worker& worker, const ShardSums& sums, StateAggregation state) {
  const double total = worker.comm().all_reduce(static_cast<double>(sums.target_count), comm::Reduction::sum);
  const at::Tensor own = comm::finish_whole(sums.gradients->nodes(), sums.shard_count) *
                         (static_cast<double>(sums.target_count) / divisor(total));
  const int64_t rank = worker.rank();
  return finish(worker, sums, worker.comm().reduce_tree({{{rank, rank + 1}, own}}, worker.size()), total,
                state);
}

}  // namespace lockstep::train
