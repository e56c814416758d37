// The confusion matrices of a sweep's trials, side by side.
#pragma once

#include <string>

#include "lockstep/view/sweep_page.h"

namespace lockstep::view {

/// A section with the id "matrices": those of the chosen trials and of the best others, and the rest folded.
/// Empty if no trial has one.
std::string matrices_section(const SweepPage& page);
std::string_view matrices_style();

}  // namespace lockstep::view
