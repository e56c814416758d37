// The arithmetic of the optimizers for one element, PyTorch's (torch/optim: sgd.py, adam.py, adamw.py,
// rmsprop.py, version 2.15). The CPU kernels and the CUDA plug-in both compile this one text.
#pragma once

#include <cmath>
#include <cstdint>

#include "lockstep/device/device_function.h"

namespace lockstep::device {

enum class UpdateKind : int32_t { sgdm, adam, adamw, rmsprop };

/// One step of one optimizer for every element: constants already resolved for this step.
struct UpdateRule {
  UpdateKind kind = UpdateKind::sgdm;
  int64_t step = 0;  ///< of the run, from 0
  double learning_rate = 0;
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0;
  double beta2 = 0;
  double alpha = 0;
  double epsilon = 0;
  double weight_decay = 0;
  double gradient_scale = 1;    ///< of clipping
  double bias_correction1 = 1;  ///< 1 - beta1^t
  double bias_correction2 = 1;  ///< sqrt(1 - beta2^t)

  /// How many values an element keeps between steps.
  constexpr int64_t state_count() const {
    switch (kind) {
      case UpdateKind::sgdm:
        return momentum != 0 ? 1 : 0;
      case UpdateKind::adam:
      case UpdateKind::adamw:
        return 2;
      case UpdateKind::rmsprop:
        return momentum != 0 ? 2 : 1;
    }
    return 0;
  }
};

/// The rule with its constants in the element's own type, for use inside a loop over elements.
template <class T, UpdateKind kind, bool has_momentum>
struct ElementUpdate {
  T learning_rate, momentum, look_ahead, beta1, one_minus_beta1, beta2, one_minus_beta2, alpha,
      one_minus_alpha, epsilon, weight_decay, keep, gradient_scale, step_size, bias_correction2;

  explicit ElementUpdate(const UpdateRule& rule)
      : learning_rate(static_cast<T>(rule.learning_rate)),
        momentum(static_cast<T>(rule.momentum)),
        look_ahead(rule.nesterov ? T{1} : T{0}),
        beta1(static_cast<T>(rule.beta1)),
        one_minus_beta1(static_cast<T>(1 - rule.beta1)),
        beta2(static_cast<T>(rule.beta2)),
        one_minus_beta2(static_cast<T>(1 - rule.beta2)),
        alpha(static_cast<T>(rule.alpha)),
        one_minus_alpha(static_cast<T>(1 - rule.alpha)),
        epsilon(static_cast<T>(rule.epsilon)),
        weight_decay(static_cast<T>(rule.weight_decay)),
        keep(static_cast<T>(1 - rule.learning_rate * rule.weight_decay)),
        gradient_scale(static_cast<T>(rule.gradient_scale)),
        step_size(static_cast<T>(rule.learning_rate / rule.bias_correction1)),
        bias_correction2(static_cast<T>(rule.bias_correction2)) {}

  /// gradient: summed over shards; weight, first, second: changed in place.
  LOCKSTEP_DEVICE_FUNCTION void operator()(T gradient, T& weight, T& first, T& second) const {
    using std::sqrt;
    gradient = gradient * gradient_scale;
    if constexpr (kind == UpdateKind::sgdm) {
      gradient = gradient + weight_decay * weight;
      if constexpr (has_momentum) {
        first = momentum * first + gradient;
        gradient = look_ahead != T{0} ? gradient + momentum * first : first;
      }
      weight = weight - learning_rate * gradient;
    } else if constexpr (kind == UpdateKind::rmsprop) {
      gradient = gradient + weight_decay * weight;
      first = alpha * first + one_minus_alpha * gradient * gradient;
      const T step = gradient / (sqrt(first) + epsilon);
      if constexpr (has_momentum) {
        second = momentum * second + step;
        weight = weight - learning_rate * second;
      } else {
        weight = weight - learning_rate * step;
      }
    } else {
      if constexpr (kind == UpdateKind::adamw) {
        weight = weight * keep;
      } else {
        gradient = gradient + weight_decay * weight;
      }
      first = first + one_minus_beta1 * (gradient - first);
      second = beta2 * second + one_minus_beta2 * gradient * gradient;
      weight = weight - step_size * (first / (sqrt(second) / bias_correction2 + epsilon));
    }
  }
};

/// Calls `visit(ElementUpdate<T, kind, has_momentum>)` for the rule's kind.
template <class T, class Visit>
void visit_update(const UpdateRule& rule, Visit&& visit) {
  switch (rule.kind) {
    case UpdateKind::sgdm:
      return rule.momentum != 0 ? visit(ElementUpdate<T, UpdateKind::sgdm, true>(rule))
                                : visit(ElementUpdate<T, UpdateKind::sgdm, false>(rule));
    case UpdateKind::adam:
      return visit(ElementUpdate<T, UpdateKind::adam, false>(rule));
    case UpdateKind::adamw:
      return visit(ElementUpdate<T, UpdateKind::adamw, false>(rule));
    case UpdateKind::rmsprop:
      return rule.momentum != 0 ? visit(ElementUpdate<T, UpdateKind::rmsprop, true>(rule))
                                : visit(ElementUpdate<T, UpdateKind::rmsprop, false>(rule));
  }
}

}  // namespace lockstep::device
