#include "lockstep/kernels/gradient_target.h"

#include <algorithm>

namespace lockstep::kernels {
namespace {

thread_local GradientTarget* innermost_target = nullptr;

auto find(auto& uses, const float* parameter) {
  return std::find_if(uses.begin(), uses.end(), [&](const auto& use) { return use.parameter == parameter; });
}

}  // namespace

GradientTarget::GradientTarget(const at::Tensor& weights, const at::Tensor& gradients, bool add)
    : weights_(weights.const_data_ptr<float>()),
      size_(weights.numel()),
      gradients_(gradients.mutable_data_ptr<float>()),
      add_(add),
      outer_(std::exchange(innermost_target, this)) {}

GradientTarget::~GradientTarget() { innermost_target = outer_; }

GradientTarget* GradientTarget::current() { return innermost_target; }

void GradientTarget::note_use(const at::Tensor& parameter) {
  const auto* position = parameter.const_data_ptr<float>();
  auto use = find(uses_, position);
  if (use == uses_.end()) use = uses_.insert(use, {position});
  ++use->count;
}

float* GradientTarget::take(const at::Tensor& parameter) {
  const auto* position = parameter.const_data_ptr<float>();
  const auto use = find(uses_, position);
  if (use == uses_.end() || use->count != 1 || use->taken || position < weights_ ||
      position + parameter.numel() > weights_ + size_)
    return nullptr;
  use->taken = true;
  return gradients_ + (position - weights_);
}

bool GradientTarget::has(int64_t element) const {
  const auto use = find(uses_, weights_ + element);
  return use != uses_.end() && use->taken;
}

}  // namespace lockstep::kernels
