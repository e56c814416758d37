// The error for a name that is no run's.
#pragma once

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/record/trial_folder.h"

namespace lockstep::record {

/// not_found: "FOLDER is not a run folder", with the command that lists the runs; or that it has the runs of
/// a cross-validation or the trials of a sweep, or that this user may not look into it (io).
inline Error not_a_run(const std::filesystem::path& folder) {
  std::error_code code;
  (void)std::filesystem::exists(folder / "status.json", code);
  if (code == std::errc::permission_denied) return errno_error(EACCES, "open", folder.native());
  if (const auto part = folder / "fold-1"; std::filesystem::is_directory(part, code))
    return {ErrorCode::not_found,
            quote(folder.native()) + " is a cross-validation, with a run folder for each part",
            "name one of its runs: " + shell_word(part.string())};
  if (is_sweep_folder(folder))
    return {ErrorCode::not_found,
            quote(folder.native()) + " is a sweep, with a run folder for each trial in " +
                quote((folder / "trials").native()),
            "lockstep sweep show " + shell_word(folder.string()) + " lists its trials"};
  return {ErrorCode::not_found, quote(folder.native()) + " is not a run folder",
          "lockstep runs lists the runs in a folder"};
}

}  // namespace lockstep::record
