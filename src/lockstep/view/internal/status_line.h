// The state of a run in one line, as far as it fits.
#pragma once

#include "lockstep/view/internal/history.h"
#include "lockstep/view/internal/line.h"

namespace lockstep::view {

/// The bar with figures, narrower than `columns`. With less room, less important figures are left out first.
Line status_bar(const Status& status, int columns, bool colour);

/// All figures in words, without a bar.
Line status_words(const Status& status);

/// The same, narrower than `columns`: less important figures are left out first.
Line status_words_within(const Status& status, int columns);

}  // namespace lockstep::view
