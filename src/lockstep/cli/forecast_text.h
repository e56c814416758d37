// A forecast for a terminal.
#pragma once

#include <string>

#include "lockstep/train/forecast/forecast.h"

namespace lockstep::cli {

/// What was measured, a row for each number of workers, what to change, and warnings, for a terminal of
/// `width` columns; 0: for no terminal.
std::string forecast_text(const train::Forecast& forecast, const train::Plan& plan, int width);

}  // namespace lockstep::cli
