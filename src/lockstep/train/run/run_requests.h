// What is done with the requests that come to a run, whatever trains it.
#pragma once

#include <filesystem>

#include "lockstep/record/requests.h"
#include "lockstep/train/loop/wishes.h"
#include "lockstep/train/run/run_log.h"

namespace lockstep::train {

/// Begins the watch of a run's folder: a request is answered in the log, then granted. If the folder is
/// removed or renamed, the run is to end with an error. `log` and `wishes` outlive the watch.
void begin_watch(record::RequestWatch& watch, const std::filesystem::path& folder, RunLog& log,
                 Wishes& wishes);

}  // namespace lockstep::train
