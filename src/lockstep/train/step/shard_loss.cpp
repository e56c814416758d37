#include "lockstep/train/step/shard_loss.h"

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

// double [2]: loss, correct. On the host it works without LibTorch's operators, which would take longer than
// a layer of a small network.
at::Tensor loss_and_correct(const at::Tensor& loss, const at::Tensor& logits, const at::Tensor& target) {
  if (!is_plain(logits, at::kFloat) || logits.dim() != 2 || !is_plain(target, at::kLong)) {
    return at::cat(
        {loss.to(at::kDouble).view({1}), logits.argmax(1).eq(target).sum().to(at::kDouble).view({1})});
  }
  const auto* row = logits.const_data_ptr<float>();
  int64_t correct = 0;
  for (int64_t i = 0; i < logits.size(0); ++i, row += logits.size(1))
    correct += answer_of(row, logits.size(1)) == target.const_data_ptr<int64_t>()[i];
  at::Tensor both = at::empty({2}, at::kDouble);
  both.mutable_data_ptr<double>()[0] = loss.item<double>();
  both.mutable_data_ptr<double>()[1] = static_cast<double>(correct);
  return both;
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
  const at::Tensor sum = sum_of_losses(logits, target, shard, smoothing);
  return {sum, {sum.detach()}};
}

BatchLoss loss_of_several(const at::Tensor& logits, const at::Tensor& target,
                          const std::vector<at::Tensor>& targets, double smoothing) {
  const at::Tensor logarithms = at::log_softmax(logits, 1);
  const auto loss_from = [smoothing](const at::Tensor& rows, const at::Tensor& wanted) {
    at::Tensor loss = at::nll_loss(rows, wanted, {}, at::Reduction::Sum, nn::kNoClass);
    return smoothing == 0 ? loss : smoothed_loss(rows, wanted, loss, smoothing);
  };
  BatchLoss loss{loss_from(logarithms, target),
                 logarithms.detach().chunk(static_cast<int64_t>(targets.size()))};
  // Each shard's sum is made separately, because the order of a sum depends on its length.
  for (size_t i = 0; i < targets.size(); ++i) loss.of_each[i] = loss_from(loss.of_each[i], targets[i]);
  return loss;
}

at::Tensor unread_of(const at::Tensor& loss, const at::Tensor& logits, const at::Tensor& target,
                     const at::Tensor& statistics) {
  const at::Tensor both = loss_and_correct(loss, logits, target);
  return statistics.defined() ? at::cat({both, statistics}) : both;
}

}  // namespace lockstep::train
