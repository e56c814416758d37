#include "lockstep/train/step/shared_weights.h"

#include <algorithm>

#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/device/kernels.h"
#include "lockstep/nn/state.h"
#include "lockstep/train/step/plain_tensor.h"

namespace lockstep::train {
namespace {

constexpr int64_t kAlignment = 16;  // elements: 64 bytes in float

int64_t aligned(int64_t count) { return (count + kAlignment - 1) / kAlignment * kAlignment; }

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.nbytes())};
}

}  // namespace

SharedWeights::SharedWeights(const nn::Instance& prototype, at::ScalarType type, at::Device device) {
  const auto options = at::TensorOptions().dtype(type).device(device);
  int64_t end = 0;
  for (const auto& item : prototype.module->named_parameters()) {
    const at::Tensor& value = item.value();
    if (!at::isFloatingType(value.scalar_type()))
      throw Error(ErrorCode::invalid_option,
                  "parameter \"" + item.key() + "\" is not of a floating-point type");
    if (!value.requires_grad()) {
      buffers_.emplace_back(item.key(), value.detach().to(options, false, true).contiguous());
      continue;
    }
    slots_.push_back({item.key(), value.sizes().vec(), end, value.numel()});
    end += aligned(value.numel());
  }
  if (slots_.empty()) {
    throw Error(ErrorCode::invalid_option,
                std::string("the network has nothing to learn: ") +
                    (buffers_.empty() ? "no parameters" : "all its parameters are frozen"),
                buffers_.empty() ? "register parameters or modules in the module's constructor"
                                 : "freeze fewer layers");
  }
  flat_ = at::zeros({end}, options);
  const auto targets = views(flat_);
  const auto parameters = learned(prototype);
  for (size_t i = 0; i < targets.size(); ++i) targets[i].copy_(parameters[i].detach());
  for (const auto& item : prototype.module->named_buffers()) {
    const at::Tensor& value = item.value();
    const auto wanted = at::isFloatingType(value.scalar_type()) ? type : value.scalar_type();
    buffers_.emplace_back(
        item.key(),
        value.detach().to(at::TensorOptions().dtype(wanted).device(device), false, true).contiguous());
  }
  for (const auto& [name, tensor] : nn::state_of(*prototype.module)) order_.push_back(name);
  alias(prototype);
}

std::vector<at::Tensor> SharedWeights::learned(const nn::Instance& instance) const {
  std::vector<at::Tensor> parameters;
  for (const auto& item : instance.module->named_parameters()) {
    if (parameters.size() < slots_.size() && item.key() == slots_[parameters.size()].name)
      parameters.push_back(item.value());
  }
  if (parameters.size() != slots_.size())
    throw Error(ErrorCode::internal, "two instances of the network have different parameters");
  return parameters;
}

void SharedWeights::alias(const nn::Instance& instance) const {
  nn::convert_floating(*instance.module, flat_.scalar_type());
  instance.module->to(flat_.device());
  const auto parameters = learned(instance);
  const auto targets = views(flat_);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].sizes() != targets[i].sizes())
      throw Error(ErrorCode::internal,
                  "parameter \"" + slots_[i].name + "\" has another shape in another instance");
    at::Tensor parameter = parameters[i];
    parameter.set_data(targets[i]);
  }
  const auto all = instance.module->named_parameters();
  for (const auto& [name, master] : buffers_) {
    const at::Tensor* frozen = all.find(name);
    if (frozen != nullptr) at::Tensor(*frozen).set_data(master);
  }
  // Held modules read their statistics in training too, so all instances have the masters'.
  for (const auto& item : instance.module->named_modules("", /*include_self=*/true)) {
    if (std::find(instance.held.begin(), instance.held.end(), item.value()) == instance.held.end()) continue;
    for (const auto& own : item.value()->named_buffers(/*recurse=*/false))
      at::Tensor(own.value()).set_data(buffer(item.key().empty() ? own.key() : item.key() + "." + own.key()));
  }
}

int64_t SharedWeights::parameter_count() const {
  int64_t count = 0;
  for (const ParameterSlot& slot : slots_) count += slot.count;
  return count;
}

at::Tensor SharedWeights::buffer(const std::string& name) const {
  for (const auto& [key, tensor] : buffers_) {
    if (key == name) return tensor;
  }
  throw Error(ErrorCode::internal, "the network has no buffer \"" + name + "\"");
}

std::vector<at::Tensor> SharedWeights::views(const at::Tensor& flat) const {
  std::vector<at::Tensor> parts;
  parts.reserve(slots_.size());
  for (const ParameterSlot& slot : slots_)
    parts.push_back(flat.narrow(0, slot.offset, slot.count).view(slot.shape));
  return parts;
}

namespace {

// For small parameters LibTorch's operators would take longer to begin than to add.
bool put_on_host(const at::Tensor& value, const at::Tensor& flat, int64_t offset, bool add) {
  if (!value.defined() || !is_plain(value, at::kFloat) || !is_plain(flat, at::kFloat)) return false;
  const auto* source = value.const_data_ptr<float>();
  float* target = flat.mutable_data_ptr<float>() + offset;
  if (add) {
    device::kernels<float>().add(target, target, source, value.numel());
  } else {
    std::copy_n(source, value.numel(), target);
  }
  return true;
}

}  // namespace

void SharedWeights::put(const std::vector<at::Tensor>& parts, const at::Tensor& flat, bool add,
                        const kernels::GradientTarget* written) const {
  if (!flat.device().is_cpu()) return put_on_device(parts, flat, add);
  for (size_t i = 0; i < slots_.size(); ++i) {
    const int64_t begin = slots_[i].offset;
    if ((written != nullptr && written->has(begin)) || put_on_host(parts[i], flat, begin, add)) continue;
    put(i, parts[i], flat.narrow(0, begin, slots_[i].count), add);
  }
}

// A few kernels for all parameters, in place of one for each.
void SharedWeights::put_on_device(const std::vector<at::Tensor>& parts, const at::Tensor& flat,
                                  bool add) const {
  std::vector<at::Tensor> targets, values;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const at::Tensor elements = flat.narrow(0, slots_[i].offset, slots_[i].count);
    if (!parts[i].defined()) {
      put(i, parts[i], elements, add);
      continue;
    }
    targets.push_back(elements.view(slots_[i].shape));
    values.push_back(parts[i]);
  }
  if (targets.empty()) return;
  if (add) {
    at::_foreach_add_(targets, values);
  } else {
    at::_foreach_copy_(targets, values);
  }
}

void SharedWeights::put(size_t parameter, const at::Tensor& value, const at::Tensor& elements,
                        bool add) const {
  const at::Tensor target = elements.view(slots_[parameter].shape);
  if (!value.defined()) {
    if (!add) target.zero_();
  } else if (add) {
    target.add_(value);
  } else {
    target.copy_(value);
  }
}

nn::NamedTensors SharedWeights::state() const {
  const auto parts = views(flat_);
  nn::NamedTensors state;
  for (const std::string& name : order_) {
    const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                   [&](const ParameterSlot& candidate) { return candidate.name == name; });
    state.emplace_back(
        name, slot != slots_.end() ? parts[static_cast<size_t>(slot - slots_.begin())] : buffer(name));
  }
  return state;
}

uint64_t SharedWeights::hash() const {
  uint64_t value = hash_of(bytes_of(flat_.cpu()));
  for (const auto& [name, tensor] : buffers_) value = hash_of(bytes_of(tensor.cpu()), value);
  return value;
}

}  // namespace lockstep::train
