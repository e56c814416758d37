// --precision auto: a short training in float32 and one in bf16-mixed decide.
#pragma once

#include <stop_token>
#include <string>

#include "lockstep/train/planning/prepare.h"

namespace lockstep::train {

struct PrecisionChoice {
  Precision precision = Precision::single;
  std::string reason;
};

/// What a short training in one precision came to.
struct PrecisionProbe {
  double images_per_second = 0;
  double accuracy =
      0;  ///< share of the held-out images that were right; NaN where the training's loss was not finite
};

/// bf16-mixed (`half`) where it is faster by a tenth at least, and its accuracy is not lower than float32's
/// by more than one standard error of that accuracy over `held_out` images, 1 or more; float32 elsewhere, and
/// where a figure is missing. The reason names what decided.
PrecisionChoice choose_precision(const PrecisionProbe& single, const PrecisionProbe& half, int64_t held_out);

/// Trains new instances of the network for a few seconds in each precision, as `prepared` plans it but for
/// its length, and chooses by the accuracy on `held_out` (a part of it where it is large). Depends on the
/// machine's speed: a run keeps the choice in its manifest. On a GPU only the workers of one of `ranks` take
/// part. Throws cancelled at a stop, and corrupt_data where the loss in float32 is not finite.
PrecisionChoice try_precisions(const Prepared& prepared, const data::Dataset& held_out, int64_t ranks,
                               std::stop_token stop);

}  // namespace lockstep::train
