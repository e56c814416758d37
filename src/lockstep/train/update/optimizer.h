// The optimizer's state, one flat tensor per kind of value, and the rule of each step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/device/update_rule.h"
#include "lockstep/nn/safetensors.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/step/learning.h"
#include "lockstep/train/step/shared_weights.h"

namespace lockstep::train {

/// The planned rule. Only the learning rate and the corrections differ between steps.
device::UpdateRule rule_of(const UpdatePlan& plan);

/// The rule with Adam's corrections for step `step` (from 0).
device::UpdateRule corrected(device::UpdateRule rule, int64_t step);

/// Elements of the flat buffers with the same factor.
struct RatePart {
  int64_t end = 0;  ///< the first element of the next part
  RateFactor factor{};
};

/// One factor for each slot, with the padding after it; neighbours with the same factor in one part. Empty
/// where all factors are always 1.
std::vector<RatePart> rate_parts(const SharedWeights& weights, const std::vector<RateFactor>& factors);

/// Several threads may call update() at once for different ranges.
class Optimizer {
 public:
  Optimizer(device::UpdateRule rule, const SharedWeights& weights, std::vector<RatePart> parts = {});

  const device::UpdateRule& rule() const { return rule_; }
  const std::vector<RatePart>& parts() const { return parts_; }

  /// Calls work(rule, begin, count) for the parts of elements [begin, begin + count), each with its own
  /// learning rate.
  template <class Work>
  void each_part(const device::UpdateRule& rule, int64_t begin, int64_t count, Work&& work) const {
    const int64_t end = begin + count;
    for (const RatePart& part : parts_) {
      if (part.end <= begin) continue;
      device::UpdateRule own = rule;
      own.learning_rate *= rule.step < part.factor.first_step ? 0 : part.factor.value;
      work(own, begin, std::min(part.end, end) - begin);
      begin = part.end;
      if (begin >= end) return;
    }
    if (begin < end) work(rule, begin, end - begin);
  }

  /// The rule for step `step` (from 0) at this learning rate.
  device::UpdateRule rule_at(int64_t step, double learning_rate) const;

  /// Elements [begin, begin + count) of the flat buffers on the CPU; `gradient` points at the first of them.
  template <class T>
  void update(const device::UpdateRule& rule, const SharedWeights& weights, const T* gradient, int64_t begin,
              int64_t count) const;

  /// The state as it is stored: "NAME.first", "NAME.second" per parameter; views of the live tensors.
  nn::NamedTensors state(const SharedWeights& weights) const;
  const std::vector<at::Tensor>& flat() const { return state_; }
  /// The i-th kind of value, flat; undefined if the rule has fewer.
  at::Tensor value(size_t i) const { return i < state_.size() ? state_[i] : at::Tensor(); }

 private:
  device::UpdateRule rule_;
  std::vector<RatePart> parts_;
  std::vector<at::Tensor> state_;
};

}  // namespace lockstep::train
