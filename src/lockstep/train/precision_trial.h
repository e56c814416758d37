// --precision auto: a short training in float32 and one in bf16-mixed decide.
#pragma once

#include <stop_token>
#include <string>

#include "lockstep/train/prepare.h"

namespace lockstep::train {

struct PrecisionChoice {
  Precision precision = Precision::single;
  std::string reason;
};

/// Trains new instances of the network for a few seconds in each precision, as `prepared` plans it but for its length. bf16-mixed is chosen where it is
/// faster and its accuracy on `held_out` (a part of it where it is large) is not lower than float32's by more than one standard error of
/// that accuracy. Depends on the machine's speed: a run keeps the choice in its manifest. On a GPU only the workers of one of `ranks` take part. Throws
/// cancelled at a stop.
PrecisionChoice try_precisions(const Prepared& prepared, const Options& options, const data::Dataset& held_out, int64_t ranks, std::stop_token stop);

}  // namespace lockstep::train
