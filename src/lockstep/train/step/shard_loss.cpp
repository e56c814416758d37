#include "lockstep/train/step/shard_loss.h"

#include <numeric>
#include <string>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/losses.h"
#include "lockstep/train/step/answer_counts.h"
#include "lockstep/train/step/plain_tensor.h"

namespace lockstep::train {
namespace {

// With mixup: the losses of the two targets, each times its share. With weights of classes: PyTorch's
// weighted loss, whose divisor is in the weights.
at::Tensor sum_of_losses(const at::Tensor& logits, const at::Tensor& target, const data::Shard& shard,
                         double smoothing) {
  // CUDA has no kernel with repeatable bits for [b,classes,T].
  if (logits.dim() == 3 && logits.is_cuda())
    return sum_of_losses(logits.transpose(1, 2).flatten(0, 1), target.flatten(), shard, smoothing);
  if (!shard.mixed_target.defined()) {
    const at::Tensor weights =
        shard.class_weights.defined() ? shard.class_weights.to(logits.options()) : at::Tensor();
    return at::cross_entropy_loss(logits, target, weights, at::Reduction::Sum, nn::kNoClass, smoothing);
  }
  const at::Tensor share = shard.target_share.to(logits.options(), /*non_blocking=*/true);
  const at::Tensor other = shard.mixed_target.to(target.options(), /*non_blocking=*/true);
  const auto loss_each = [&](const at::Tensor& wanted) {
    return at::cross_entropy_loss(logits, wanted, {}, at::Reduction::None, nn::kNoClass, smoothing);
  };
  return (share * loss_each(target) + (1 - share) * loss_each(other)).sum();
}

// As at::cross_entropy_loss makes it of the rows' log_softmax and its loss without smoothing.
at::Tensor smoothed_loss(const at::Tensor& rows, const at::Tensor& target, const at::Tensor& loss,
                         double smoothing) {
  const at::Tensor of_all = (-rows.sum(1)).masked_fill(target == nn::kNoClass, 0).sum();
  return (1 - smoothing) * loss + of_all * (smoothing / static_cast<double>(rows.size(1)));
}

// double [shards], from the rows' log_softmax.
at::Tensor losses_of_shards(const at::Tensor& rows, const at::Tensor& target, int64_t shards,
                            double smoothing) {
  const int64_t classes = rows.size(1), samples = rows.size(0) / shards;
  const auto* row = rows.const_data_ptr<float>();
  const auto* wanted = target.const_data_ptr<int64_t>();
  const auto loss_of = [&] {
    if (smoothing == 0) return -static_cast<double>(row[*wanted]);
    const double of_all = std::accumulate(row, row + classes, 0.0);
    return -(1 - smoothing) * row[*wanted] - of_all * (smoothing / static_cast<double>(classes));
  };
  at::Tensor losses = at::zeros({shards}, at::kDouble);
  for (int64_t i = 0; i < shards * samples; ++i, row += classes, ++wanted)
    if (*wanted != nn::kNoClass) losses.mutable_data_ptr<double>()[i / samples] += loss_of();
  return losses;
}

// double [shards]
at::Tensor corrects_of_shards(const at::Tensor& logits, const at::Tensor& target, int64_t shards) {
  if (!are_plain(logits, target))
    return logits.argmax(1).eq(target).reshape({shards, -1}).sum(1).to(at::kDouble);
  const int64_t classes = logits.size(1), samples = logits.size(0) / shards;
  const auto* row = logits.const_data_ptr<float>();
  at::Tensor corrects = at::zeros({shards}, at::kDouble);
  for (int64_t i = 0; i < shards * samples; ++i, row += classes)
    if (answer_of(row, classes) == target.const_data_ptr<int64_t>()[i])
      corrects.mutable_data_ptr<double>()[i / samples] += 1;
  return corrects;
}

}  // namespace

void check_logits(const at::Tensor& logits, const at::Tensor& target) {
  const int64_t count = target.size(0);
  if (logits.dim() == target.dim() + 1 && logits.size(0) == count &&
      logits.sizes().slice(2) == target.sizes().slice(1))
    return;
  if (target.dim() == 2) {
    throw Error(ErrorCode::invalid_option,
                "the network gives " + c10::str(logits.sizes()) + " for " + std::to_string(count) +
                    " sequences whose " + std::to_string(target.size(1)) +
                    " time steps have a class each, not [" + std::to_string(count) + ", classes, " +
                    std::to_string(target.size(1)) + "]");
  }
  throw Error(ErrorCode::invalid_option,
              "the network gives " + c10::str(logits.sizes()) + " for " + std::to_string(count) +
                  " images, not [" + std::to_string(count) + ", classes]",
              "end it with a flatten and a fully connected layer");
}

at::Tensor widened(const at::Tensor& logits) {
  return logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
}

BatchLoss loss_of_shard(const at::Tensor& logits, const at::Tensor& target, const data::Shard& shard,
                        double smoothing) {
  if (logits.dim() == 2 && !shard.mixed_target.defined() && !shard.class_weights.defined())
    return loss_of_several(logits, target, /*shards=*/1, smoothing);
  const at::Tensor sum = sum_of_losses(logits, target, shard, smoothing);
  return {sum, sum.detach().view({1})};
}

BatchLoss loss_of_several(const at::Tensor& logits, const at::Tensor& target, int64_t shards,
                          double smoothing) {
  const at::Tensor logarithms = at::log_softmax(logits, 1);
  const auto loss_from = [smoothing](const at::Tensor& rows, const at::Tensor& wanted) {
    at::Tensor loss = at::nll_loss(rows, wanted, {}, at::Reduction::Sum, nn::kNoClass);
    return smoothing == 0 ? loss : smoothed_loss(rows, wanted, loss, smoothing);
  };
  const at::Tensor sum = loss_from(logarithms, target);
  if (are_plain(logarithms, target))
    return {sum, losses_of_shards(logarithms.detach(), target, shards, smoothing)};
  if (shards == 1) return {sum, sum.detach().view({1})};
  // Each shard's sum is made separately, because the order of a sum depends on its length.
  std::vector<at::Tensor> of_each = logarithms.detach().chunk(shards);
  const std::vector<at::Tensor> targets = target.chunk(shards);
  for (size_t i = 0; i < of_each.size(); ++i) of_each[i] = loss_from(of_each[i], targets[i]);
  return {sum, at::stack(of_each)};
}

at::Tensor unread_of(const at::Tensor& losses, const at::Tensor& logits, const at::Tensor& target,
                     const at::Tensor& statistics) {
  const at::Tensor both =
      at::stack({losses.to(at::kDouble), corrects_of_shards(logits, target, losses.size(0))}, 1);
  return statistics.defined() ? at::cat({both, statistics}, 1) : both;
}

}  // namespace lockstep::train
