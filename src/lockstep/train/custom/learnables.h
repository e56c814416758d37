// Optimizers for loops of one's own: plain functions over lists of learnables, and objects that keep the
// state between steps. No gradients at all are those of a step that `exchange` skipped (fp16-mixed): nothing
// changes then.
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

struct SgdmUpdate {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> velocity;
};

/// One step of SGD with momentum, PyTorch's arithmetic: new tensors, the ones given stay as they are.
/// `velocity` is what the last step gave, empty before the first. Lists have one tensor for each learnable,
/// float or double. Parameters that require no gradient keep their values where others require one: they are
/// frozen. Throws invalid_option when lists do not fit together.
SgdmUpdate sgdm_update(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
                       const std::vector<at::Tensor>& velocity = {}, const SgdmOptions& options = {});

/// Adam's state after `iteration` steps; the one of a fresh AdamMoments is before the first.
struct AdamMoments {
  int64_t iteration = 0;
  std::vector<at::Tensor> mean = {};  ///< of gradients
  std::vector<at::Tensor> mean_square = {};
};

struct AdamUpdate {
  std::vector<at::Tensor> parameters;
  AdamMoments moments;
};

/// One step of Adam (Kingma and Ba 2015), PyTorch's arithmetic; as sgdm_update.
AdamUpdate adam_update(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
                       const AdamMoments& moments = {}, const AdamOptions& options = {});

/// An update rule of one's own: f(parameter, gradient) for each learnable, without a graph; the new values.
std::vector<at::Tensor> update(
    const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
    const std::function<at::Tensor(const at::Tensor& parameter, const at::Tensor& gradient)>& f);

/// The same for a model, in place: f(name, parameter, gradient).
void update(const BuiltModel& model, const std::vector<at::Tensor>& gradients,
            const std::function<at::Tensor(const std::string& name, const at::Tensor& parameter,
                                           const at::Tensor& gradient)>& f);

/// PyTorch's clip_grad_norm_ for what `exchange` gave, with the arithmetic of `lockstep train
/// --gradient-clip`: where the L2 norm of all gradients together is larger than `most`, they become new
/// tensors, scaled down to it. Gives the norm that they had. Every rank calls it with the same gradients, and
/// has the same then. Throws invalid_option unless most is above 0, or when the gradients are not the
/// model's.
double clip_gradients(const BuiltModel& model, std::vector<at::Tensor>& gradients, double most);

/// Learn-rate factors for a model's learnables: those of the layer `name` (and below) have `factor`, all
/// others `other`.
std::vector<double> learn_rate_factors(const BuiltModel& model, const std::string& layer, double factor,
                                       double other);

/// sgdm_update and adam_update in place, with the state kept here. step() changes the parameters that were
/// given: model.parameters() are the model's.
class LearnableUpdater {
 public:
  /// One step; all gradients must be there, or none. Without a rate it is that of the options.
  void step(const std::vector<at::Tensor>& gradients);
  void step(const std::vector<at::Tensor>& gradients, double learning_rate);
  /// Calls of step(), those without gradients too: what a schedule goes by.
  int64_t steps() const { return steps_; }

 protected:
  LearnableUpdater(std::vector<at::Tensor> parameters, std::vector<double> factors, device::UpdateRule rule);

 private:
  device::UpdateRule rule_;
  std::vector<at::Tensor> parameters_;
  std::vector<double> factors_;
  std::vector<at::Tensor> first_;
  std::vector<at::Tensor> second_;
  int64_t steps_ = 0;
  int64_t skipped_ = 0;
};

class Sgdm : public LearnableUpdater {
 public:
  /// `factors` multiply the rate of each learnable; empty: all 1.
  explicit Sgdm(std::vector<at::Tensor> parameters, const SgdmOptions& options = {},
                std::vector<double> factors = {});
};

class Adam : public LearnableUpdater {
 public:
  explicit Adam(std::vector<at::Tensor> parameters, const AdamOptions& options = {},
                std::vector<double> factors = {});
};

}  // namespace lockstep::train
