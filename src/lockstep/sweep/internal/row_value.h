// The values of a trial as numbers, from the text that the table has.
#pragma once

#include <optional>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::sweep {

/// The number, or the index of the choice. Nothing where the parameter does not count for the trial, or where
/// the text is no value of it, as in a damaged log.
std::optional<double> value_of(const Parameter& parameter, const Row& row);

/// Whether the trial was trained as far as it should be and has a finite result.
bool is_complete(const Row& row);

}  // namespace lockstep::sweep
