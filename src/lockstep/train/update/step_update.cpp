#include "lockstep/train/update/step_update.h"

#include <utility>

#include "lockstep/train/update/averaging_update.h"
#include "lockstep/train/update/tree_update.h"

namespace lockstep::train {

std::unique_ptr<StepUpdate> make_step_update(UpdateParts parts) {
  if (parts.plan.exchange.averages()) return std::make_unique<AveragingUpdate>(std::move(parts));
  return std::make_unique<TreeUpdate>(std::move(parts));
}

}  // namespace lockstep::train
