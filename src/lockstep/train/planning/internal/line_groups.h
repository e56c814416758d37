// The groups of lines that plan_lines joins.
#pragma once

#include <vector>

#include "lockstep/train/options/plan.h"
#include "lockstep/train/planning/plan_lines.h"

namespace lockstep::train {

/// The samples: how many, in what format, and which are held out.
std::vector<PlanLine> data_lines(const Plan& plan, const PlanReasons& reasons);

/// Shards, mini-batch and the exchange between workers; replicas in averaging mode.
std::vector<PlanLine> step_lines(const Plan& plan, const PlanReasons& reasons);

/// Where decoded images are kept.
std::vector<PlanLine> memory_lines(const Plan& plan, const PlanReasons& reasons);

}  // namespace lockstep::train
