// What the commands for the cloud print and read in common.
#pragma once

#include <string>

#include "lockstep/cloud/plan.h"

namespace lockstep::cli {

/// "$21.96"; below a cent "$0.0034".
std::string as_dollars(double dollars);

/// Throws invalid_option for a provider that there is not.
void check_provider(const std::string& provider);

/// Empty: the built-in prices; live: AWS's of today; else a file.
cloud::PriceTable prices_of(const std::string& choice, const std::string& region);

/// The plan as lines, without the alternatives. `width` is the terminal's width in columns; 0: no terminal.
std::string cloud_plan_text(const cloud::ClusterPlan& plan, int width);

}  // namespace lockstep::cli
