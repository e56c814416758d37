// For tests: the optimizer's rule in a run with these options.
#pragma once

#include "lockstep/train/planning/resolve.h"
#include "lockstep/train/update/optimizer.h"

namespace lockstep::train::test {

inline device::UpdateRule resolved_rule(const Options& options) {
  return rule_of(resolve_update(options, data::SampleKind::image));
}

}  // namespace lockstep::train::test
