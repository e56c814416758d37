#include "lockstep/nn/module_checks.h"

#include <algorithm>
#include <exception>
#include <map>
#include <unordered_set>
#include <vector>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/nn/module.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/device/failure.h"
#include "lockstep/device/random_scope.h"
#include "lockstep/nn/freeze.h"
#include "lockstep/nn/module_trial.h"
#include "lockstep/nn/state.h"

namespace lockstep::nn {
namespace {

constexpr int64_t kImages = 2;  // batch norms need more than one value

using Node = torch::autograd::Node;

Error fault(const std::string& what, const std::string& hint) {
  return {ErrorCode::invalid_option, what, hint};
}

void check_shared_parameters(const std::string& network, const Instance& instance) {
  std::map<const c10::TensorImpl*, std::string> names;
  for (const auto& item : instance.module->named_parameters()) {
    const auto [first, is_new] = names.emplace(item.value().unsafeGetTensorImpl(), item.key());
    if (!is_new)
      throw fault("the network " + quote(network) + " has one tensor as two parameters, " +
                      quote(first->second) + " and " + quote(item.key()),
                  "register a module once, and call it as often as needed in forward");
  }
}

std::string hint_for(const Error& error) {
  if (!error.hint().empty()) return error.hint();
  if (error.message().find("dtype") != std::string::npos)
    return "images and parameters are float32, or float64 with --precision 64-true, whatever the module was "
           "converted to";
  if (error.message().find("cannot be multiplied") != std::string::npos)
    return "give the linear layer as many input features as the layer before it gives";
  return "its constructor gets the input that it must accept: channels, height, width and classes";
}

at::Tensor output_for(const std::string& network, const Instance& instance, const at::Tensor& images) {
  const torch::AutoGradMode with_gradients(true);
  try {
    return instance.forward(images);
  } catch (...) {
    const Error error = device::error_of(std::current_exception());
    throw fault("the forward of the network " + quote(network) + " fails for images " +
                    c10::str(images.sizes()) + ": " + error.message(),
                hint_for(error));
  }
}

void check_output(const std::string& network, const at::Tensor& output, const NetworkInput& input) {
  if (!output.defined())
    throw fault("the forward of the network " + quote(network) + " gives an undefined tensor",
                "return the scores of each class: [images, classes]");
  if (output.sizes() == at::IntArrayRef{kImages, input.classes}) return;
  const bool are_scores = output.dim() == 2 && output.size(0) == kImages;
  throw fault("the network " + quote(network) + " gives " + c10::str(output.sizes()) + " for " +
                  std::to_string(kImages) + " images of " + counted(input.classes, "class") +
                  ", not [images, classes]",
              are_scores ? "end it with a layer of input.classes outputs"
                         : "end it with a flatten and a fully connected layer");
}

// The tensors that get a gradient.
std::vector<at::Tensor> leaves_of(const at::Tensor& output) {
  std::vector<at::Tensor> leaves;
  std::vector<Node*> open{output.grad_fn().get()};
  std::unordered_set<Node*> seen(open.begin(), open.end());
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node))
      leaves.push_back(leaf->variable);
    for (const auto& edge : node->next_edges()) {
      if (edge.function != nullptr && seen.insert(edge.function.get()).second)
        open.push_back(edge.function.get());
    }
  }
  return leaves;
}

void check_gradients(const std::string& network, const Instance& instance, const at::Tensor& output) {
  const std::vector<at::Tensor> parameters = instance.module->parameters();
  if (std::ranges::none_of(parameters, &at::Tensor::requires_grad)) return;  // all are frozen
  if (output.grad_fn() == nullptr)
    throw fault("the output of the network " + quote(network) + " depends on no parameter that learns",
                "detach(), item(), a NoGradGuard and new tensors made of values cut the gradient");
  std::unordered_set<const c10::TensorImpl*> registered;
  for (const at::Tensor& parameter : parameters) registered.insert(parameter.unsafeGetTensorImpl());
  for (const at::Tensor& leaf : leaves_of(output)) {
    if (!registered.contains(leaf.unsafeGetTensorImpl()))
      throw fault("the forward of the network " + quote(network) + " uses a tensor " +
                      c10::str(leaf.sizes()) + " that would learn and is not registered",
                  "register_module for layers, register_parameter for tensors, in the module's constructor");
  }
}

}  // namespace

void check_module(const std::string& name, const Instance& instance, const NetworkInput& input,
                  c10::ScalarType type) {
  check_shared_parameters(name, instance);
  if (input.time_steps > 0) return;
  convert_floating(*instance.module, type);
  begin_training(instance);
  const KeptBuffers kept(*instance.module);
  const device::RandomScope own_draws(at::kCPU, 0);
  const at::Tensor output = output_for(name, instance, made_up_images(input, kImages).to(type));
  check_output(name, output, input);
  check_gradients(name, instance, output);
}

}  // namespace lockstep::nn
