// The part of ShardRunner that evaluates.
#include <algorithm>
#include <utility>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/nn/module.h>

#include "lockstep/train/step/shard_loss.h"
#include "lockstep/train/step/shard_parts.h"
#include "lockstep/train/step/shard_runner.h"

namespace lockstep::train {

// Layers in evaluation mode compute each sample by itself.
nn::SequenceOutput ShardRunner::output_in_pieces(const data::Shard& shard,
                                                 const std::vector<at::Tensor>& hidden_state) {
  if (piece_ == 0 || shard.count <= piece_ || !options_.format.device.is_cpu() || shard.lengths.defined() ||
      shard.input.defined())
    return output_of(own_, shard, hidden_state);
  std::vector<at::Tensor> logits;
  for (int64_t begin = 0; begin < shard.count; begin += piece_) {
    const Range part{begin, std::min(begin + piece_, shard.count)};
    logits.push_back(output_of(own_, part_of_shard(shard, part), {}).logits);
  }
  return {.logits = at::cat(logits)};
}

int64_t ShardRunner::most_evaluated() const { return std::min(piece_, kSamplesTogether); }

void ShardRunner::begin_evaluation() {
  own_.instance.module->eval();
  own_.training = false;
  own_.norms.load(*own_.weights);
}

ShardResult ShardRunner::evaluate(const data::Shard& shard, at::Tensor* logits,
                                  const std::vector<at::Tensor>& hidden_state, AnswerCounts* answers) {
  const torch::NoGradGuard no_grad;
  const AutocastScope scope = autocast(WeightCasts::renew);
  nn::SequenceOutput output = output_in_pieces(shard, hidden_state);
  const at::Tensor wide = widened(output.logits);
  ShardResult result;
  result.count = shard.count;
  result.hidden_state = std::move(output.hidden_state);
  const at::Tensor target = shard.target.to(options_.format.device, at::kLong, /*non_blocking=*/true);
  const BatchLoss loss = loss_of_shard(wide, target, /*shard=*/{}, /*smoothing=*/0);
  result.unread = unread_of(loss.of_each, wide, target, /*statistics=*/{}).unbind();
  result.unread_counts.push_back({shard.count, target_count(shard)});
  if (answers != nullptr) answers->add(wide, target);
  if (logits != nullptr) *logits = wide.cpu();
  return result;
}

std::vector<ShardResult> ShardRunner::evaluate_together(const data::Shard& joined, int64_t shards,
                                                        AnswerCounts* answers) {
  const torch::NoGradGuard no_grad;
  const AutocastScope scope = autocast(WeightCasts::renew);
  const at::Tensor wide = widened(output_of(own_, joined, {}).logits);
  const BatchLoss loss = loss_of_several(wide, joined.target, shards, /*smoothing=*/0);
  const std::vector<at::Tensor> unread = unread_of(loss.of_each, wide, joined.target, {}).unbind(),
                                targets = joined.target.chunk(shards);
  if (answers != nullptr) answers->add(wide, joined.target);
  std::vector<ShardResult> results(unread.size());
  for (size_t i = 0; i < unread.size(); ++i) {
    results[i].count = joined.count / shards;
    results[i].unread = {unread[i]};
    results[i].unread_counts = {
        {results[i].count, target_count({.target = targets[i], .count = results[i].count})}};
  }
  return results;
}

}  // namespace lockstep::train
