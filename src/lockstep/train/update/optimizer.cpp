#include "lockstep/train/update/optimizer.h"

#include <cmath>

#include <ATen/Functions.h>

#include "lockstep/device/kernels.h"

namespace lockstep::train {

static_assert(static_cast<int>(OptimizerKind::rmsprop) == static_cast<int>(device::UpdateKind::rmsprop) &&
                  static_cast<int>(OptimizerKind::adamw) == static_cast<int>(device::UpdateKind::adamw) &&
                  static_cast<int>(OptimizerKind::adam) == static_cast<int>(device::UpdateKind::adam),
              "rule_of casts one enumeration to the other");

device::UpdateRule rule_of(const UpdatePlan& plan) {
  return {.kind = static_cast<device::UpdateKind>(plan.optimizer),
          .momentum = plan.momentum,
          .nesterov = plan.nesterov,
          .beta1 = plan.beta1,
          .beta2 = plan.beta2,
          .alpha = plan.alpha,
          .epsilon = plan.epsilon,
          .weight_decay = plan.weight_decay};
}

std::vector<RatePart> rate_parts(const SharedWeights& weights, const std::vector<RateFactor>& factors) {
  if (std::all_of(factors.begin(), factors.end(), [](const RateFactor& own) { return own == RateFactor(); }))
    return {};
  std::vector<RatePart> parts;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (i > 0 && factors[i] != factors[i - 1]) parts.push_back({weights.slots()[i].offset, factors[i - 1]});
  }
  parts.push_back({weights.element_count(), factors.back()});
  return parts;
}

Optimizer::Optimizer(device::UpdateRule rule, const SharedWeights& weights, std::vector<RatePart> parts)
    : rule_(rule), parts_(std::move(parts)) {
  for (int64_t i = 0; i < rule.state_count(); ++i) state_.push_back(at::zeros_like(weights.flat()));
}

device::UpdateRule corrected(device::UpdateRule rule, int64_t step) {
  const auto count = static_cast<double>(step + 1);
  if (rule.kind == device::UpdateKind::adam || rule.kind == device::UpdateKind::adamw) {
    rule.bias_correction1 = 1 - std::pow(rule.beta1, count);
    rule.bias_correction2 = std::sqrt(1 - std::pow(rule.beta2, count));
  }
  return rule;
}

device::UpdateRule Optimizer::rule_at(int64_t step, double learning_rate) const {
  device::UpdateRule rule = corrected(rule_, step);
  rule.step = step;
  rule.learning_rate = learning_rate;
  return rule;
}

template <class T>
void Optimizer::update(const device::UpdateRule& rule, const SharedWeights& weights, const T* gradient,
                       int64_t begin, int64_t count) const {
  each_part(rule, begin, count, [&](const device::UpdateRule& own, int64_t first, int64_t size) {
    const auto at = [&](size_t i) {
      return i < state_.size() ? state_[i].template data_ptr<T>() + first : nullptr;
    };
    device::kernels<T>().update(own, gradient + (first - begin),
                                weights.flat().template data_ptr<T>() + first, at(0), at(1), size);
  });
}
template void Optimizer::update<float>(const device::UpdateRule&, const SharedWeights&, const float*, int64_t,
                                       int64_t) const;
template void Optimizer::update<double>(const device::UpdateRule&, const SharedWeights&, const double*,
                                        int64_t, int64_t) const;

nn::NamedTensors Optimizer::state(const SharedWeights& weights) const {
  static constexpr const char* kNames[] = {".first", ".second"};
  nn::NamedTensors named;
  for (size_t i = 0; i < state_.size(); ++i) {
    const auto parts = weights.views(state_[i]);
    for (size_t p = 0; p < parts.size(); ++p)
      named.emplace_back(weights.slots()[p].name + kNames[i], parts[p]);
  }
  return named;
}

}  // namespace lockstep::train
