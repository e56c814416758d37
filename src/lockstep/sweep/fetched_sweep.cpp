#include "lockstep/sweep/fetched_sweep.h"

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/regular_file.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/record/known_part.h"
#include "lockstep/record/trial_folder.h"
#include "lockstep/sweep/sweep_log.h"

namespace lockstep::sweep {

std::optional<FetchedSweep> fetched_from(const SweepPaths& paths) {
  constexpr int64_t kMostBytes = 1 << 20;
  const std::filesystem::path file = paths.folder / record::kFetchedMark;
  std::error_code none;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, none))) return std::nullopt;
  try {
    FetchedSweep from;
    read_json(record::known_part<FetchedSweep>(parse_json(read_regular_file(file, kMostBytes))), from,
              quote(file.string()));
    return from;
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt_data, quote(file.string()) + " is damaged: " + error.what(),
                "fetch the sweep into another folder");
  }
}

std::string copy_text(const SweepPaths& paths) {
  const auto from = fetched_from(paths);
  return from ? "a copy of " + from->sweep : "";
}

void mark_as_fetched(const SweepPaths& paths, const FetchedSweep& from) {
  write_file_atomic(paths.folder / record::kFetchedMark, lockstep::to_json(from).dump(2) + "\n");
}

void check_is_no_copy(const SweepPaths& paths, const std::string& command) {
  const auto from = fetched_from(paths);
  if (!from) return;
  std::string typed = command;
  typed.replace(typed.find("SWEEP"), std::string_view("SWEEP").size(), shell_word(from->sweep));
  throw Error(ErrorCode::invalid_option,
              quote(paths.folder.string()) + " is a copy of the sweep " + quote(from->sweep),
              "lockstep sweep " + typed + "; to make the copy a sweep of its own, remove " +
                  (paths.folder / record::kFetchedMark).string());
}

double begun_at(const SweepPaths& paths) {
  const std::vector<LogLine> lines = read_log(paths);
  return lines.empty() ? 0 : lines.front().time;
}

}  // namespace lockstep::sweep
