// Optimizers for custom loops: plain functions over lists of learnables, and objects that keep the state
// between steps. An empty list of gradients belongs to a step that `exchange` skipped (fp16-mixed); it
// changes nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/describe.h"
#include "lockstep/device/update_rule.h"
#include "lockstep/train/custom/built_model.h"
#include "lockstep/train/options/limits.h"

namespace lockstep::train {

/// Options of sgdm_update and Sgdm.
struct SgdmOptions {
  double learning_rate = 0.01;
  double momentum = 0.9;
  double weight_decay = 0;
  bool nesterov = false;

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("learning-rate", self.learning_rate, "step size", between(0, kMostRate));
    field("momentum", self.momentum, "share of the last update kept", between(0, 1));
    field("weight-decay", self.weight_decay, "L2 term added to the gradient", between(0, kMostRate));
    field("nesterov", self.nesterov, "Nesterov's momentum");
  };
};

/// Options of adam_update and Adam.
struct AdamOptions {
  double learning_rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("learning-rate", self.learning_rate, "step size", between(0, kMostRate));
    field("beta1", self.beta1, "decay of the mean gradient", between(0, 1));
    field("beta2", self.beta2, "decay of the mean square", between(0, 1));
    field("epsilon", self.epsilon, "added to the root", between(0, 1e3));
    field("weight-decay", self.weight_decay, "L2 term added to the gradient", between(0, kMostRate));
  };
};

/// The result of sgdm_update, one tensor for each learnable.
struct SgdmUpdate {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> velocity;  ///< for the next step
};

/// One step of SGD with momentum, with PyTorch's arithmetic. Returns new tensors and does not change its
/// arguments. `velocity` is the result of the last step, empty before the first one. Each list has one tensor
/// for each learnable, float or double. If some parameters require a gradient, the others are frozen and keep
/// their values; if none does, all are learned. The new parameters require a gradient where the old ones do.
/// Throws invalid_option if the lists do not fit together.
SgdmUpdate sgdm_update(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
                       const std::vector<at::Tensor>& velocity = {}, const SgdmOptions& options = {});

/// Adam's state after `iteration` steps. A new AdamMoments is the state before the first step.
struct AdamMoments {
  int64_t iteration = 0;
  std::vector<at::Tensor> mean = {};  ///< of gradients
  std::vector<at::Tensor> mean_square = {};
};

struct AdamUpdate {
  std::vector<at::Tensor> parameters;
  AdamMoments moments;
};

/// One step of Adam (Kingma and Ba 2015), with PyTorch's arithmetic; otherwise as sgdm_update.
AdamUpdate adam_update(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
                       const AdamMoments& moments = {}, const AdamOptions& options = {});

/// A custom update rule: calls f(parameter, gradient) for each learnable, without a graph, and returns the
/// new values. Throws invalid_option if the lists do not fit together.
std::vector<at::Tensor> update(
    const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
    const std::function<at::Tensor(const at::Tensor& parameter, const at::Tensor& gradient)>& f);

/// The same for a model, in place: f(name, parameter, gradient).
void update(const BuiltModel& model, const std::vector<at::Tensor>& gradients,
            const std::function<at::Tensor(const std::string& name, const at::Tensor& parameter,
                                           const at::Tensor& gradient)>& f);

/// PyTorch's clip_grad_norm_ for the gradients from `exchange`, with the arithmetic of `lockstep train
/// --gradient-clip`: if the L2 norm of all gradients together is larger than `most`, they are replaced by new
/// tensors, scaled to this norm. Returns the norm before that. Every rank calls it with the same gradients
/// and gets the same result. Throws invalid_option unless most is above 0, and if the gradients are not the
/// model's.
double clip_gradients(const BuiltModel& model, std::vector<at::Tensor>& gradients, double most);

/// Learning-rate factors for a model's learnables: `factor` for those of the layer `layer` (and of layers in
/// it), `other` for all others.
std::vector<double> learn_rate_factors(const BuiltModel& model, const std::string& layer, double factor,
                                       double other);

/// sgdm_update and adam_update in place, with their state. step() changes the parameters that were given;
/// model.parameters() are the model's own. Parameters that require no gradient are frozen, unless that was so
/// for all of them when they were given.
class LearnableUpdater {
 public:
  /// One step, with a gradient for each parameter or an empty list. Without a learning rate it uses that of
  /// the options. Throws invalid_option for a rate that the options would not take.
  void step(const std::vector<at::Tensor>& gradients);
  void step(const std::vector<at::Tensor>& gradients, double learning_rate);
  /// The number of calls of step(), also of those without gradients. Use it for a schedule.
  int64_t steps() const { return steps_; }
  /// The calls of step() without gradients.
  int64_t skipped() const { return skipped_; }
  /// That of the options.
  double learning_rate() const { return rule_.learning_rate; }

  /// The optimizer's tensors by name, its own: for a checkpoint, with steps() and skipped().
  nn::NamedTensors state() const;
  /// Continues the count of a checkpoint.
  void set_counts(int64_t steps, int64_t skipped);

 protected:
  LearnableUpdater(std::vector<at::Tensor> parameters, std::vector<double> factors, device::UpdateRule rule);

 private:
  device::UpdateRule rule_;
  std::vector<at::Tensor> parameters_;
  std::vector<double> factors_;
  bool all_learned_;  ///< none required a gradient when they were given
  std::vector<at::Tensor> first_;
  std::vector<at::Tensor> second_;
  int64_t steps_ = 0;
  int64_t skipped_ = 0;
};

class Sgdm : public LearnableUpdater {
 public:
  /// `factors` multiply the learning rate of each learnable; empty: all 1.
  explicit Sgdm(std::vector<at::Tensor> parameters, const SgdmOptions& options = {},
                std::vector<double> factors = {});
};

class Adam : public LearnableUpdater {
 public:
  explicit Adam(std::vector<at::Tensor> parameters, const AdamOptions& options = {},
                std::vector<double> factors = {});
};

}  // namespace lockstep::train
