// LibTorch's autocast, for training with bfloat16 or float16 beside float32.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/train/options/options.h"

namespace lockstep::train {

/// The casts of the weights that autocast makes: kept for all shards of a step, or made again each time. A
/// cast that is kept without recording a gradient has no gradient later, so evaluation renews its casts.
enum class WeightCasts { keep, renew };

/// Turns autocast on for this thread while it lives, in bf16-mixed and fp16-mixed; afterwards the thread's
/// settings are as they were. LibTorch has one cache of casts for the process. Another training may therefore
/// forget the casts of this one, and they are made again. The bits stay the same where a forward pass uses
/// each weight once, as networks of layers do.
class AutocastScope {
 public:
  AutocastScope(Precision precision, c10::DeviceType device, WeightCasts casts);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

  /// After each update, when no thread of this training is in a forward pass.
  static void forget_casts();

 private:
  bool enabled_;
  c10::DeviceType device_;
  bool outer_enabled_;
  at::ScalarType outer_type_;
  bool outer_cache_;
};

}  // namespace lockstep::train
