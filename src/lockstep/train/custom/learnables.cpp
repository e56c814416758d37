#include "lockstep/train/custom/learnables.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/device/gpu.h"
#include "lockstep/device/kernels.h"
#include "lockstep/train/custom/internal/model_parts.h"
#include "lockstep/train/update/optimizer.h"

namespace lockstep::train {
namespace {

// Throws if a value is outside the limits in its `describe`.
template <class T>
const T& checked(const T& options) {
  T copy;
  read_json(lockstep::to_json(options), copy, "");
  return options;
}

device::UpdateRule rule_of(const SgdmOptions& options) {
  checked(options);
  return {.kind = device::UpdateKind::sgdm,
          .learning_rate = options.learning_rate,
          .momentum = options.momentum,
          .nesterov = options.nesterov,
          .weight_decay = options.weight_decay};
}

device::UpdateRule rule_of(const AdamOptions& options) {
  checked(options);
  return {.kind = device::UpdateKind::adam,
          .learning_rate = options.learning_rate,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .epsilon = options.epsilon,
          .weight_decay = options.weight_decay};
}

void check_list(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& list,
                const char* what) {
  if (parameters.size() != list.size()) {
    throw Error(ErrorCode::invalid_option, "there are " + std::to_string(parameters.size()) +
                                               " learnables and " + std::to_string(list.size()) + " " + what);
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const at::Tensor& parameter = parameters[i];
    if (list[i].defined() && list[i].sizes() == parameter.sizes() &&
        list[i].scalar_type() == parameter.scalar_type() && list[i].device() == parameter.device())
      continue;
    throw Error(ErrorCode::invalid_option,
                "learnable " + std::to_string(i) + " is " + c10::str(parameter.sizes()) +
                    ", and its entry in the " + what +
                    (list[i].defined() ? " holds " + c10::str(list[i].sizes()) + " of type " +
                                             c10::toString(list[i].scalar_type())
                                       : " is empty"));
  }
}

// An empty list of gradients belongs to a skipped step.
void check_gradients(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients) {
  if (!gradients.empty()) check_list(parameters, gradients, "gradients");
}

template <class T>
void apply_on_cpu(const device::UpdateRule& rule, const at::Tensor& gradient, const at::Tensor& weight,
                  const at::Tensor& first, const at::Tensor& second) {
  const auto at = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr<T>() : nullptr; };
  device::kernels<T>().update(rule, gradient.const_data_ptr<T>(), at(weight), at(first), at(second),
                              weight.numel());
}

// In place, with the trainer's kernels. Weight and state are contiguous.
void apply(const device::UpdateRule& rule, const at::Tensor& gradient, const at::Tensor& weight,
           const at::Tensor& first, const at::Tensor& second) {
  const at::Tensor dense = gradient.contiguous();
  if (!weight.is_cpu()) return device::gpu_library().kernels().update(rule, dense, weight, first, second);
  if (weight.scalar_type() == at::kDouble) return apply_on_cpu<double>(rule, dense, weight, first, second);
  if (weight.scalar_type() == at::kFloat) return apply_on_cpu<float>(rule, dense, weight, first, second);
  throw Error(ErrorCode::invalid_option,
              std::string("learnables of type ") + c10::toString(weight.scalar_type()) + " cannot be updated",
              "float and double can");
}

template <class T>
std::vector<double> block_squares_on_cpu(const at::Tensor& flat) {
  std::vector<double> squares;
  for (int64_t begin = 0; begin < flat.numel(); begin += kBlock) {
    const int64_t count = std::min(kBlock, flat.numel() - begin);
    squares.push_back(device::kernels<T>().sum_of_squares(flat.const_data_ptr<T>() + begin, count));
  }
  return squares;
}

// One for each block, as in the trainer's updaters.
std::vector<double> block_squares(const at::Tensor& flat) {
  const bool is_double = flat.scalar_type() == at::kDouble;
  if (flat.is_cpu())
    return is_double ? block_squares_on_cpu<double>(flat) : block_squares_on_cpu<float>(flat);
  const at::Tensor squares = device::gpu_library().kernels().sums_of_squares(flat, kBlock).cpu();
  return {squares.const_data_ptr<double>(), squares.const_data_ptr<double>() + squares.numel()};
}

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : tensors) all.push_back(tensor.detach().clone(at::MemoryFormat::Contiguous));
  return all;
}

// Copies of frozen ones stay frozen in the next update.
std::vector<at::Tensor> copies_of_learnables(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> all = copies(parameters);
  for (size_t i = 0; i < all.size(); ++i) all[i].requires_grad_(parameters[i].requires_grad());
  return all;
}

std::vector<at::Tensor> zeros_like(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : tensors)
    all.push_back(at::zeros_like(tensor.detach(), at::MemoryFormat::Contiguous));
  return all;
}

// If some require a gradient, the others are frozen; weight decay must not change them. If none does, all are
// learned.
std::vector<bool> learned_of(const std::vector<at::Tensor>& parameters) {
  std::vector<bool> learned;
  for (const at::Tensor& parameter : parameters) learned.push_back(parameter.requires_grad());
  if (std::find(learned.begin(), learned.end(), true) == learned.end()) learned.assign(learned.size(), true);
  return learned;
}

at::Tensor at_or_none(const std::vector<at::Tensor>& list, size_t i) {
  return list.empty() ? at::Tensor() : list[i];
}

}  // namespace

SgdmUpdate sgdm_update(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
                       const std::vector<at::Tensor>& velocity, const SgdmOptions& options) {
  check_gradients(parameters, gradients);
  if (!velocity.empty()) check_list(parameters, velocity, "velocities");
  const torch::NoGradGuard no_grad;
  if (gradients.empty()) return {copies_of_learnables(parameters), copies(velocity)};
  SgdmUpdate next{copies_of_learnables(parameters),
                  velocity.empty() ? zeros_like(parameters) : copies(velocity)};
  const device::UpdateRule rule = rule_of(options);
  const std::vector<bool> learned = learned_of(parameters);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (learned[i]) apply(rule, gradients[i], next.parameters[i], next.velocity[i], {});
  }
  return next;
}

AdamUpdate adam_update(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
                       const AdamMoments& moments, const AdamOptions& options) {
  check_gradients(parameters, gradients);
  if (!moments.mean.empty()) check_list(parameters, moments.mean, "means");
  if (!moments.mean_square.empty()) check_list(parameters, moments.mean_square, "mean squares");
  const torch::NoGradGuard no_grad;
  if (gradients.empty()) {
    return {copies_of_learnables(parameters),
            {moments.iteration, copies(moments.mean), copies(moments.mean_square)}};
  }
  AdamUpdate next{
      copies_of_learnables(parameters),
      {moments.iteration + 1, moments.mean.empty() ? zeros_like(parameters) : copies(moments.mean),
       moments.mean_square.empty() ? zeros_like(parameters) : copies(moments.mean_square)}};
  const device::UpdateRule rule = corrected(rule_of(options), moments.iteration);
  const std::vector<bool> learned = learned_of(parameters);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (learned[i])
      apply(rule, gradients[i], next.parameters[i], next.moments.mean[i], next.moments.mean_square[i]);
  }
  return next;
}

std::vector<at::Tensor> update(const std::vector<at::Tensor>& parameters,
                               const std::vector<at::Tensor>& gradients,
                               const std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>& f) {
  check_gradients(parameters, gradients);
  const torch::NoGradGuard no_grad;
  if (gradients.empty()) return copies(parameters);
  std::vector<at::Tensor> next;
  for (size_t i = 0; i < parameters.size(); ++i) next.push_back(f(parameters[i].detach(), gradients[i]));
  return next;
}

void update(const BuiltModel& model, const std::vector<at::Tensor>& gradients,
            const std::function<at::Tensor(const std::string&, const at::Tensor&, const at::Tensor&)>& f) {
  const auto names = model.parameter_names();
  auto name = names.begin();
  model.assign(
      update(model.parameters(), gradients, [&](const at::Tensor& parameter, const at::Tensor& gradient) {
        return f(*name++, parameter, gradient);
      }));
}

double clip_gradients(const BuiltModel& model, std::vector<at::Tensor>& gradients, double most) {
  if (!(most > 0)) {
    throw Error(ErrorCode::invalid_option,
                "gradients cannot be clipped to a norm of " + describe_detail::text_of(most),
                "give a norm above 0");
  }
  check_gradients(model.parameters(), gradients);
  if (gradients.empty()) return 0;
  const torch::NoGradGuard no_grad;
  const SharedWeights& weights = model.parts().weights;
  const at::Tensor flat = at::zeros_like(weights.flat());
  weights.put(gradients, flat, /*add=*/false);
  const double norm = std::sqrt(comm::fold(block_squares(flat), 0, weights.block_count(), std::plus<>()));
  const double scale = std::min(1.0, most / (norm + 1e-6));
  if (scale == 1) return norm;
  for (at::Tensor& gradient : gradients) gradient = gradient.mul(scale);
  return norm;
}

std::vector<double> learn_rate_factors(const BuiltModel& model, const std::string& layer, double factor,
                                       double other) {
  std::vector<double> factors;
  for (const bool inside : learnables_of(model, {layer})) factors.push_back(inside ? factor : other);
  return factors;
}

LearnableUpdater::LearnableUpdater(std::vector<at::Tensor> parameters, std::vector<double> factors,
                                   device::UpdateRule rule)
    : rule_(rule),
      parameters_(std::move(parameters)),
      factors_(std::move(factors)),
      all_learned_(std::none_of(parameters_.begin(), parameters_.end(),
                                [](const at::Tensor& parameter) { return parameter.requires_grad(); })) {
  if (factors_.empty()) factors_.assign(parameters_.size(), 1.0);
  if (factors_.size() != parameters_.size()) {
    throw Error(ErrorCode::invalid_option, "there are " + std::to_string(parameters_.size()) +
                                               " learnables and " + std::to_string(factors_.size()) +
                                               " learn-rate factors");
  }
  for (const at::Tensor& parameter : parameters_) {
    if (!parameter.is_contiguous())
      throw Error(ErrorCode::invalid_option, "a learnable " + c10::str(parameter.sizes()) +
                                                 " is not contiguous and cannot be updated in place");
  }
  if (rule_.state_count() > 0) first_ = zeros_like(parameters_);
  if (rule_.state_count() > 1) second_ = zeros_like(parameters_);
}

void LearnableUpdater::step(const std::vector<at::Tensor>& gradients) {
  step(gradients, rule_.learning_rate);
}

void LearnableUpdater::step(const std::vector<at::Tensor>& gradients, double learning_rate) {
  check_gradients(parameters_, gradients);
  if (!(learning_rate >= 0 && learning_rate <= kMostRate))
    checked(SgdmOptions{.learning_rate = learning_rate});
  const int64_t made = steps_++ - skipped_;
  if (gradients.empty()) return void(++skipped_);
  device::UpdateRule rule = corrected(rule_, made);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!all_learned_ && !parameters_[i].requires_grad()) continue;  // weight decay must not change it
    rule.learning_rate = learning_rate * factors_[i];
    apply(rule, gradients[i], parameters_[i].detach(), at_or_none(first_, i), at_or_none(second_, i));
  }
}

nn::NamedTensors LearnableUpdater::state() const {
  nn::NamedTensors tensors;
  for (size_t i = 0; i < first_.size(); ++i) tensors.emplace_back(std::to_string(i) + ".first", first_[i]);
  for (size_t i = 0; i < second_.size(); ++i) tensors.emplace_back(std::to_string(i) + ".second", second_[i]);
  return tensors;
}

void LearnableUpdater::set_counts(int64_t steps, int64_t skipped) {
  steps_ = steps;
  skipped_ = skipped;
}

Sgdm::Sgdm(std::vector<at::Tensor> parameters, const SgdmOptions& options, std::vector<double> factors)
    : LearnableUpdater(std::move(parameters), std::move(factors), rule_of(options)) {}

Adam::Adam(std::vector<at::Tensor> parameters, const AdamOptions& options, std::vector<double> factors)
    : LearnableUpdater(std::move(parameters), std::move(factors), rule_of(options)) {}

}  // namespace lockstep::train
