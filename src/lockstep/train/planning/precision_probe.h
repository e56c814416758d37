// --precision auto: a short trial in float32 and another in bf16-mixed decide.
#pragma once

#include <stop_token>
#include <string>

#include "lockstep/device/inventory.h"
#include "lockstep/train/planning/prepare.h"

namespace lockstep::train {

struct PrecisionChoice {
  Precision precision = Precision::single;
  std::string reason;
};

/// The result of a trial in one precision.
struct PrecisionProbe {
  double images_per_second = 0;
  double accuracy = 0;  ///< share of the held-out images classified correctly; NaN if the loss was not finite
};

/// bf16-mixed (`half`) if it is faster by at least a tenth, and its accuracy is not lower than float32's by
/// more than one standard error of that accuracy over `held_out` images, 1 or more. Otherwise, and if a
/// figure is missing, float32. The reason names what decided.
PrecisionChoice choose_precision(const PrecisionProbe& single, const PrecisionProbe& half, int64_t held_out);

/// Why a given precision is slow on this device; empty: it is not.
std::string slow_precision_reason(const Plan& plan);

/// Whether the processor has vector units for bfloat16.
bool has_bf16_units(const device::Inventory& inventory);

/// What decides beside the plan.
struct PrecisionRequest {
  const data::Dataset& held_out;
  const Plan* earlier = nullptr;  ///< of an earlier attempt of the run, whose precision is kept; may be null
  bool has_bf16_units = false;    ///< the processor has vector units for bfloat16
  int64_t ranks = 1;              ///< on a GPU only the workers of one of them take part in a trial
  std::stop_token stop = {};
};

/// Resolves --precision auto. Where both precisions are possible, trains new instances of the network for a
/// few seconds in each, as `prepared` plans it but for its length, and chooses by the accuracy on the
/// held-out images (a part of them if there are many). That depends on the machine's speed, so a run keeps
/// the choice in its manifest. Throws cancelled at a stop, and corrupt_data if the loss in float32 is not
/// finite.
PrecisionChoice resolve_precision(const Prepared& prepared, const PrecisionRequest& request);

}  // namespace lockstep::train
