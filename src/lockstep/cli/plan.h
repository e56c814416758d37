// The plan as `lockstep plan` prints it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/train/options/plan.h"

namespace lockstep::cli {

/// Name, value and reason in columns, broken between words for a terminal of `width` columns; 0: one line
/// each.
std::string plan_text(const std::vector<train::PlanLine>& lines, size_t width);

}  // namespace lockstep::cli
