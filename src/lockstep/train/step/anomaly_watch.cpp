#include "lockstep/train/step/anomaly_watch.h"

#include <string>

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

bool all_finite(const at::Tensor& values) { return at::isfinite(values).all().item<bool>(); }

std::string quoted(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back("\"" + name + "\"");
  return (names.size() == 1 ? "layer " : "layers ") + join(quoted, " and ");
}

}  // namespace

AnomalyWatch::AnomalyWatch(nn::Instance& instance) : instance_(instance) {
  if (instance.observe)
    instance.observe([this](size_t layer, const at::Tensor& output) { check_output(layer, output); });
}

AnomalyWatch::~AnomalyWatch() {
  if (instance_.observe) instance_.observe({});
}

void AnomalyWatch::report(const std::string& what, const at::Tensor& values) const {
  const bool nan = at::isnan(values).any().item<bool>();
  throw Error(ErrorCode::corrupt_data,
              what + " " + (nan ? "NaN" : "infinite") + " in step " + std::to_string(place_.step + 1) +
                  ", in shard " + std::to_string(place_.shard),
              place_.step > 0 ? "try a smaller --learning-rate, or --gradient-clip 1"
                              : "no step has changed the weights yet: look at the weights to start from, the "
                                "data and --normalize");
}

void AnomalyWatch::check_output(size_t layer, const at::Tensor& output) const {
  const nn::InstanceLayer& known = instance_.layers[layer];
  if (!output.is_floating_point()) return;
  if (!all_finite(output))
    report("forward of layer \"" + known.name + "\" is the first that gave values that are", output);
  if (output.requires_grad() && place_.checks_gradients)
    output.register_hook(
        [this, layer](const at::Tensor& gradient) { check_gradient_of_output(layer, gradient); });
}

void AnomalyWatch::check_gradient_of_output(size_t layer, const at::Tensor& gradient) const {
  if (!gradient.defined() || all_finite(gradient)) return;
  const nn::InstanceLayer& known = instance_.layers[layer];
  const std::string by = known.read_by.empty() ? "of the loss" : "of " + quoted(known.read_by);
  report("backward " + by + " is the first that gave gradients that are", gradient);
}

void AnomalyWatch::check_gradients() const {
  if (!place_.checks_gradients) return;
  const auto parameters = instance_.module->named_parameters();
  for (size_t i = parameters.size(); i-- > 0;) {
    const at::Tensor& gradient = parameters[i].value().grad();
    if (gradient.defined() && !all_finite(gradient))
      report("backward gave a gradient of \"" + parameters[i].key() + "\" that is", gradient);
  }
}

}  // namespace lockstep::train
