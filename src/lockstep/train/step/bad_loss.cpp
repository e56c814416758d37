#include "lockstep/train/step/bad_loss.h"

#include <cmath>

namespace lockstep::train {

Error bad_loss(double loss, int64_t step, const std::string& part, std::string hint) {
  return {ErrorCode::corrupt_data,
          "the loss became " + std::string(std::isnan(loss) ? "NaN" : "infinite") + " in step " +
              std::to_string(step) + ", in " + part,
          std::move(hint)};
}

}  // namespace lockstep::train
