// What a sweep's page says of a trial. Texts, not markup.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::view {

/// Null if the table has no such trial.
const sweep::Row* find_row(const sweep::Table& table, int64_t trial);

/// The row's value of the parameter; of a long number of a range of real ones three figures. Empty where the
/// parameter does not count.
std::string value_text(const sweep::Row& row, const sweep::Parameter& parameter);
/// "0.9390", or a dash.
std::string result_of(const sweep::Row& row);

/// "Trial 7: best_accuracy 0.9390", with a star for the best.
std::string trial_title(const sweep::Table& table, const sweep::Row& row);
/// "network lenet, learning-rate 0.0024": those that count for the trial.
std::string parameters_text(const sweep::Table& table, const sweep::Row& row);

}  // namespace lockstep::view
