// Copies the folder of a sweep here, also from behind a login node.
#pragma once

#include <optional>

#include "lockstep/cli/console.h"
#include "lockstep/cli/relay_parts.h"
#include "lockstep/cli/verb.h"

namespace lockstep::cli {

/// `sweep fetch` of the sweep that the first word of the call names. there: what it means behind a login
/// node; nothing: a folder of this machine. Brings files that are not here yet, or are others here, and
/// removes those of trials that the sweep does not have any more. Throws invalid_option, before it writes, if
/// the target has anything else than a copy of this sweep; io if files did not come.
int fetch_sweep(const std::optional<RelayedJob>& there, const Call& call, Console& console);

}  // namespace lockstep::cli
