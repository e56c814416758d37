// Run folders that are trials of a sweep, and what that means for their weights.
#pragma once

#include <filesystem>
#include <optional>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"

namespace lockstep::record {

/// Name of the file that marks the folder of a sweep as a copy (sweep/fetched_sweep.h).
inline constexpr const char* kFetchedMark = "fetched.json";

/// Whether the folder is that of a sweep.
inline bool is_sweep_folder(const std::filesystem::path& folder) {
  std::error_code none;
  return std::filesystem::is_regular_file(folder / "sweep.json", none) &&
         std::filesystem::exists(folder / "trials", none);
}

/// The folder of the sweep; nothing if the run is no trial. For "search/trials/0003" it is "search".
inline std::optional<std::filesystem::path> sweep_of_trial(const std::filesystem::path& run_folder) {
  std::filesystem::path run = run_folder.lexically_normal();
  if (!run.has_filename()) run = run.parent_path();  // without the slash at the end
  std::filesystem::path sweep = (run / ".." / "..").lexically_normal();
  if (!sweep.has_filename()) sweep = sweep.parent_path();
  std::error_code none;
  if (!is_sweep_folder(sweep) || !std::filesystem::equivalent(sweep / "trials" / run.filename(), run, none))
    return std::nullopt;
  return sweep;
}

/// not_found: the sweep has removed the weights of this trial, or they were not copied with it.
inline Error removed_weights(const std::filesystem::path& run_folder, const std::filesystem::path& sweep) {
  std::error_code none;
  if (std::filesystem::exists(sweep / kFetchedMark, none))
    return {ErrorCode::not_found,
            quote(run_folder.string()) + " has no weights: " + quote(sweep.string()) +
                " is a copy, and these were not kept by the sweep, or not copied",
            "lockstep sweep fetch copies those that the sweep has kept, unless --weights=false is given"};
  return {ErrorCode::not_found,
          quote(run_folder.string()) + " has no weights: the sweep keeps those of its best trials only " +
              "(--keep-weights)",
          "lockstep sweep show " + shell_word(sweep.string()) + " --sort result lists the best first; " +
              "lockstep runs show " + shell_word(run_folder.string()) +
              " has the command that trains this one again, with another --output"};
}

}  // namespace lockstep::record
