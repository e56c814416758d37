#include "lockstep/nn/operator_watch.h"

#include <memory>
#include <utility>

#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/nn/module.h>

#include "lockstep/kernels/direct_kernels.h"

namespace lockstep::nn {
namespace {

// Thread-local because callbacks of RecordFunction have no argument of ours.
thread_local OperatorWatch* watch_here = nullptr;

std::string full_name(const at::RecordFunction& call) {
  const auto name = call.operator_name();
  if (!name) return call.name();
  return name->overload_name.empty() ? name->name : name->name + "." + name->overload_name;
}

bool has_hook(torch::autograd::Node& node) {
  return !node.tensor_pre_hooks().empty() || !node.retains_grad_hooks().empty() ||
         !node.pre_hooks().empty() || !node.post_hooks().empty();
}

// Why a node's gradients may not be those of each sample; empty: they are. A hook may do nothing now and
// change a sum of gradients later.
std::string why_gradients_mix(const at::Tensor& output) {
  using Node = torch::autograd::Node;
  std::vector<Node*> open{output.grad_fn().get()};
  std::unordered_set<Node*> seen(open.begin(), open.end());
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (!is_sample_gradient(node->name()))
      return "the gradient " + node->name() + " is not known to keep samples apart";
    if (has_hook(*node)) return "the gradient " + node->name() + " has a hook";
    for (const auto& edge : node->next_edges()) {
      if (edge.function != nullptr && seen.insert(edge.function.get()).second)
        open.push_back(edge.function.get());
    }
  }
  return "";
}

}  // namespace

/// The tensors of a call.
struct OperatorWatch::Arguments {
  std::vector<at::Tensor> batches;
  std::vector<const void*> weights;
  size_t first_batch = 0;  // its place among all arguments
  bool others = false;     // tensors that are neither
};

struct OperatorWatch::Callbacks {
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call) {
    if (watch_here != nullptr && watch_here->depth_++ == 0) watch_here->begin_call(call);
    return nullptr;
  }
  static void end(const at::RecordFunction& call, at::ObserverContext*) {
    if (watch_here != nullptr && --watch_here->depth_ == 0) watch_here->end_call(call);
  }
};

OperatorWatch::OperatorWatch(const torch::nn::Module& module, const at::Tensor& images)
    : samples_(images.size(0)), outer_(std::exchange(watch_here, this)) {
  for (const std::vector<at::Tensor>& tensors : {module.parameters(), module.buffers()}) {
    for (const at::Tensor& tensor : tensors)
      weights_[tensor.const_data_ptr()] = {
          .count = tensor.numel(),
          .is_counter = tensor.numel() == 1 && tensor.scalar_type() == at::kLong && !tensor.requires_grad()};
  }
  if (samples_ < 2) refusal_ = "one sample shows nothing";
  add_batch(images);
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&Callbacks::begin, &Callbacks::end)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

OperatorWatch::~OperatorWatch() { end(); }

void OperatorWatch::end() {
  if (!std::exchange(watches_, false)) return;
  at::removeCallback(handle_);
  watch_here = outer_;
}

void OperatorWatch::follow(const at::Tensor& images) {
  if (watch_here != nullptr) watch_here->add_batch(images);
}

std::string OperatorWatch::why_samples_mix(const at::Tensor& output) {
  end();
  if (!refusal_.empty()) return refusal_;
  if (!kernel_.empty()) return kernel_;
  if (!is_batch(output)) return "its output does not come from the operators that were seen";
  if (output.grad_fn() == nullptr) return "it has nothing to learn";
  return why_gradients_mix(output);
}

bool OperatorWatch::is_batch(const at::Tensor& tensor) const {
  return known_batches_.contains(tensor.unsafeGetTensorImpl());
}

void OperatorWatch::add_batch(const at::Tensor& tensor) {
  if (known_batches_.insert(tensor.unsafeGetTensorImpl()).second) batches_.push_back(tensor);
}

// An exception here would be lost, because RecordFunction takes it for a warning.
void OperatorWatch::begin_call(const at::RecordFunction& call) {
  if (!refusal_.empty()) return;
  refusal_ = "an operator could not be read";
  gives_batch_ = is_layer_ = false;
  refusal_ = refusal(call);
}

void OperatorWatch::end_call(const at::RecordFunction& call) {
  if (!refusal_.empty() || !gives_batch_) return;
  const std::vector<c10::IValue>& outputs = call.outputs();
  const bool one = outputs.size() == 1 && outputs[0].isTensor();
  const at::Tensor output = one ? outputs[0].toTensor() : at::Tensor();
  if (!output.defined() || output.dim() < 1 || output.size(0) != samples_) {
    refusal_ = full_name(call) + " does not give a row for each sample";
    return;
  }
  add_batch(output);
  if (!is_layer_ || !kernel_.empty()) return;
  const auto node = output.grad_fn();
  if (node == nullptr) {
    kernel_ = full_name(call) + " has no gradient, which would show whose kernels it uses";
  } else if (!is_sample_gradient(node->name())) {
    kernel_ = full_name(call) + " uses a kernel of LibTorch that takes all samples at once, " + node->name();
  }
}

OperatorWatch::Arguments OperatorWatch::read(const at::RecordFunction& call) const {
  Arguments arguments;
  const auto inputs = call.inputs();
  const auto take = [&](const at::Tensor& tensor, size_t place) {
    if (!tensor.defined()) return;
    const auto weight = weights_.find(tensor.const_data_ptr());
    if (is_batch(tensor)) {
      if (arguments.batches.empty()) arguments.first_batch = place;
      arguments.batches.push_back(tensor);
    } else if (weight != weights_.end() && weight->second.count == tensor.numel()) {
      arguments.weights.push_back(weight->first);
    } else {
      arguments.others = true;
    }
  };
  for (size_t place = 0; place < inputs.size(); ++place) {
    const c10::IValue& value = inputs[place];
    if (value.isTensor()) {
      take(value.toTensor(), place);
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) take(tensor, place);
    } else if (value.isOptionalTensorList()) {
      arguments.others = true;
    }
  }
  return arguments;
}

// A weight that a module uses twice has the sum of two gradients, in another order for several shards.
std::string OperatorWatch::refusal_of_layer(const Arguments& arguments, const SampleOperator& known) {
  const std::string name(known.name);
  if (arguments.others || arguments.batches.size() != 1 || arguments.first_batch != known.batch ||
      arguments.weights.empty())
    return name + " is not called with a batch and registered weights";
  for (const void* weight : arguments.weights) {
    if (std::exchange(weights_.at(weight).is_used, true)) return name + " uses a weight for the second time";
  }
  return "";
}

std::string OperatorWatch::refusal(const at::RecordFunction& call) {
  const std::string name = full_name(call);
  const Arguments arguments = read(call);
  const auto inputs = call.inputs();
  // LibTorch's batch norms count their batches; nothing else reads the number.
  if ((name == "aten::add_.Scalar" || name == "aten::add_.Tensor") && arguments.batches.empty() &&
      arguments.weights.size() == 1 && weights_.at(arguments.weights[0]).is_counter)
    return "";
  const SampleOperator* known = find_sample_operator(name);
  if (known == nullptr) return name + " is not known to keep samples apart";
  gives_batch_ = known->rule != OperatorRule::transpose;
  is_layer_ = known->rule == OperatorRule::layer;
  if (is_layer_) return refusal_of_layer(arguments, *known);
  const size_t batches = arguments.batches.size();
  const std::string unusual = name + " has arguments that are not known to keep samples apart";
  if (known->rule == OperatorRule::transpose)
    return batches == 0 && arguments.weights.size() == 1 && !arguments.others ? "" : unusual;
  if (arguments.others || !arguments.weights.empty() || batches == 0) return unusual;
  const at::Tensor& first = arguments.batches[0];
  bool usual = batches == 1;
  if (known->rule == OperatorRule::equal_pair) {
    usual = batches == 2 && first.sizes() == arguments.batches[1].sizes() && inputs.back().isScalar() &&
            inputs.back().toScalar().equal(1);
  } else if (known->rule == OperatorRule::concatenate) {
    usual = inputs.back().isInt() && inputs.back().toInt() != 0 && inputs.back().toInt() != -first.dim();
  } else if (known->rule == OperatorRule::mean) {
    usual = batches == 1 && inputs[1].isIntList() && kernels::is_over_places(first, inputs[1].toIntVector());
  }
  return usual ? "" : unusual;
}

}  // namespace lockstep::nn
