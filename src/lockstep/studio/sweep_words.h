// The commands of sweeps that pages start.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/studio/studio.h"
#include "lockstep/studio/sweeps.h"

namespace lockstep::studio {

/// The options of lockstep sweep that a page does not set itself, for a form.
Json sweep_form(const Setup& setup);

/// {"data", "parameters": [{"name", "values"}], "options": {...} of sweep, "training": {...} of train}: the
/// words of a new sweep, in a new folder below the first root. Throws invalid_option for what lockstep sweep
/// would refuse by its text alone.
std::vector<std::string> new_sweep_words(const Json& body, const Setup& setup);

/// {"sweep": id, "trial": 3, "text", "trials": [3, 5]}: the words of "sweep stop", "sweep resume", "sweep
/// restart", "sweep annotate" or "sweep report". Throws invalid_option for others.
std::vector<std::string> sweep_words(const std::string& command, const Json& body, Sweeps& sweeps);

}  // namespace lockstep::studio
