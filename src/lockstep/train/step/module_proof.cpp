#include "lockstep/train/step/module_proof.h"

#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/base/counted.h"
#include "lockstep/device/failure.h"
#include "lockstep/nn/operator_watch.h"
#include "lockstep/train/step/shard_loss.h"
#include "lockstep/train/step/shard_parts.h"
#include "lockstep/train/step/shard_runner.h"

namespace lockstep::train {
namespace {

constexpr int64_t kProofShards = 3;  // their tree has nodes of one and of two shards

// Other images with other means: with equal ones a mean over samples would go unnoticed.
data::Shard with_two_more(const data::Shard& shard) {
  const at::Tensor& images = shard.images;
  const at::Tensor inverted = images.is_floating_point() ? images.neg() : at::bitwise_not(images);
  return {.index = shard.index,
          .first = shard.first,
          .images = at::cat({images, inverted, images.flip({0, 3})}),
          .target = at::cat({shard.target, shard.target.flip(0), shard.target}),
          .count = kProofShards * shard.count};
}

bool have_same_bits(const at::Tensor& left, const at::Tensor& right) {
  if (!left.defined() || !right.defined()) return left.defined() == right.defined();
  if (left.sizes() != right.sizes() || left.scalar_type() != right.scalar_type()) return false;
  const at::Tensor own = left.contiguous(), other = right.contiguous();
  return std::memcmp(own.const_data_ptr(), other.const_data_ptr(), own.nbytes()) == 0;
}

bool have_same_bits(const std::vector<at::Tensor>& left, const std::vector<at::Tensor>& right) {
  bool same = left.size() == right.size();
  for (size_t i = 0; same && i < left.size(); ++i) same = have_same_bits(left[i], right[i]);
  return same;
}

// Those of `others` are dropped.
void add(std::vector<at::Tensor>& sums, std::vector<at::Tensor> others) {
  for (size_t i = 0; i < sums.size(); ++i) {
    const at::Tensor other = std::move(others[i]);
    sums[i] = sums[i].defined() && other.defined() ? at::add(sums[i], other) : at::Tensor();
  }
}

// The tree adds the first shard to the sum of the others. It is computed last, so that at most two shards'
// gradients are kept.
PassBits one_after_the_other(const data::Shard& all, const RunPass& run) {
  const auto run_shard = [&](int64_t i) {
    return run(part_of_shard(all, part_of(all.count, kProofShards, i)), 1, /*watched=*/false);
  };
  PassBits second = run_shard(1), third = run_shard(2);
  add(second.gradients, std::move(third.gradients));
  PassBits first = run_shard(0);
  add(first.gradients, std::move(second.gradients));
  return {at::cat({first.logits, second.logits, third.logits}),
          {first.of_shards.front(), second.of_shards.front(), third.of_shards.front()},
          std::move(first.gradients),
          ""};
}

}  // namespace

std::string why_apart(const data::Shard& shard, const RunPass& run) {
  if (std::string mixes = run(shard, 1, /*watched=*/true).apart; !mixes.empty()) return mixes;
  const data::Shard all = with_two_more(shard);
  const PassBits together = run(all, kProofShards, /*watched=*/false), alone = one_after_the_other(all, run);
  if (!have_same_bits(together.logits, alone.logits)) return "its outputs have other bits in larger batches";
  if (!have_same_bits(together.of_shards, alone.of_shards))
    return "its losses or its batch norms' statistics have other bits in larger batches";
  if (!have_same_bits(together.gradients, alone.gradients))
    return "its gradients have other bits in larger batches";
  return "";
}

std::string ModuleTrials::why_apart(int64_t samples, const std::function<std::string()>& try_module) {
  const std::lock_guard lock(mutex_);
  auto known = reasons_.find(samples);
  if (known == reasons_.end()) known = reasons_.emplace(samples, try_module()).first;
  return known->second;
}

std::vector<std::string> ModuleTrials::new_reasons() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> reasons;
  for (const auto& [samples, reason] : reasons_) {
    if (!reason.empty() && given_.insert(reason).second)
      reasons.push_back("the module's shards of " + counted(samples, "sample") +
                        " are computed alone: " + reason);
  }
  return reasons;
}

std::string ShardRunner::why_module_apart(const data::Shard& shard) {
  if (!options_.format.device.is_cpu()) return "it is on a GPU";
  if (shard.lengths.defined()) return "it takes sequences";
  if (!may_go_together(shard)) return "the options need each shard alone";
  const auto try_module = [&]() -> std::string {
    try {
      return why_apart(shard, [this](const data::Shard& samples, int64_t shards, bool watched) {
        return pass_bits(samples, shards, watched);
      });
    } catch (...) {
      // Training reports what fails for one shard, too.
      return "a trial failed: " + device::error_of(std::current_exception()).message();
    }
  };
  return options_.trials == nullptr ? try_module() : options_.trials->why_apart(shard.count, try_module);
}

// As train_pass does. Gradients are asked for and not accumulated, so nobody is told of them.
PassBits ShardRunner::pass_bits(const data::Shard& samples, int64_t shards, bool watched) {
  begin_training(own_);
  if (watch_ != nullptr) watch_->set_on(false);
  const auto turn = random_.reseed(shard_seed(options_.seed, /*step=*/0, samples.index, /*piece=*/0));
  const kernels::ShardsTogether together(shards);
  const at::Tensor target = samples.target.to(at::kLong);
  PassBits bits;
  BatchLoss loss;
  at::Tensor wide;
  {
    const AutocastScope scope = autocast(WeightCasts::renew);
    // A copy, because a module may write into its input, which may be the images themselves.
    const at::Tensor input = data::to_input(samples.images, options_.format).clone();
    std::optional<nn::OperatorWatch> watch;
    if (watched) watch.emplace(*own_.instance.module, input);
    const at::Tensor logits = own_.logits(input, {});
    if (watch) bits.apart = watch->why_samples_mix(logits);
    if (together.mixed()) bits.apart = "a convolution has an unusual type";
    if (!bits.apart.empty()) return bits;
    check_logits(logits, target);
    wide = widened(logits);
    loss = shards == 1 ? loss_of_shard(wide, target, samples, options_.label_smoothing)
                       : loss_of_several(wide, target, shards, options_.label_smoothing);
  }
  bits.logits = wide.detach();
  bits.of_shards = unread_of(loss.of_each, bits.logits, target,
                             shards == 1 ? own_.norms.statistics() : own_.norms.statistics(together))
                       .unbind();
  const double scale = 1.0 / static_cast<double>(kProofShards * samples.count / shards);
  bits.gradients =
      torch::autograd::grad({loss.sum}, own_.parameters, {at::full({}, scale, loss.sum.options())},
                            /*retain_graph=*/{}, /*create_graph=*/false, /*allow_unused=*/true);
  return bits;
}

}  // namespace lockstep::train
