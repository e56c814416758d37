// A forecast as text for a terminal.
#pragma once

#include <string>

#include "lockstep/train/forecast/forecast.h"

namespace lockstep::cli {

/// The measurements, one row for each number of workers, advice, and warnings. `width` is the terminal's
/// width in columns; 0: no terminal.
std::string forecast_text(const train::Forecast& forecast, const train::Plan& plan, int width);

}  // namespace lockstep::cli
