// What a sweep refuses before it writes anything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::cli {

/// The last value of an option in the words of train; nothing if it is not there.
std::optional<std::string> value_in(const std::vector<std::string>& words, const std::string& option);

/// Bytes that trials on threads may use; 0 if none are given. Throws invalid_option.
int64_t memory_of(const sweep::SweepSpec& spec);

/// Throws invalid_option for what no sweep can do, and not_found if its working folder is gone.
void check_sweep(const sweep::SweepSpec& spec);

/// Throws invalid_option for what a sweep would do in vain: trials without a result, options without an
/// effect. A sweep that was begun so can go on.
void check_new_sweep(const sweep::SweepSpec& spec);

}  // namespace lockstep::cli
