// Where the data of a run are, seen from another folder than the one that the run began in.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/record/event.h"

namespace lockstep::train {

/// A path of the run's command line, below the newest working folder of the run that has it. `path` itself
/// if none has it, or if it is an address.
std::string seen_by_run(const std::string& path, const std::vector<record::Event>& events);

/// The same from the event log of a run folder, which is read only for a relative path. `path` itself where
/// there is no log.
std::string seen_by_run(const std::string& path, const std::filesystem::path& run_folder);

}  // namespace lockstep::train
