// The error for a name that is no run's.
#pragma once

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::record {

/// not_found: "FOLDER is not a run folder", with the command that lists the runs.
inline Error not_a_run(const std::filesystem::path& folder) {
  return {ErrorCode::not_found, quote(folder.native()) + " is not a run folder",
          "lockstep runs lists the runs in a folder"};
}

}  // namespace lockstep::record
