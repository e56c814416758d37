#include "lockstep/jobs/job_run.h"

#include <algorithm>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::jobs {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostFoldsBytes = 16 << 20;

bool is_there(const fs::path& file) { return ::access(file.c_str(), F_OK) == 0; }
fs::path folds_file(const fs::path& run_folder) { return run_folder / "folds.json"; }

}  // namespace

bool has_begun(const fs::path& run_folder) {
  return is_there(record::RunPaths{run_folder}.options()) || is_there(folds_file(run_folder));
}

int64_t folds_in(const fs::path& run_folder) {
  if (!is_there(folds_file(run_folder))) return 0;
  try {
    return parse_json(read_file(folds_file(run_folder), kMostFoldsBytes))["options"].value("validation-folds",
                                                                                           int64_t{0});
  } catch (const std::exception&) {  // it is being written, or damaged, which its training says
    return 0;
  }
}

std::vector<fs::path> runs_in(const fs::path& run_folder) {
  if (record::holds_run(run_folder)) return {run_folder};
  std::vector<fs::path> runs;
  while (true) {
    const fs::path part = run_folder / ("fold-" + std::to_string(runs.size() + 1));
    if (!record::holds_run(part)) return runs;
    runs.push_back(part);
  }
}

bool have_runs_ended(const JobSpec& spec) {
  const auto newest = state_of_runs(spec);
  if (!newest || newest->step < 0 || newest->state != record::RunState::ended) return false;
  const int64_t folds = folds_in(spec.run_folder);
  return folds == 0 || folds == static_cast<int64_t>(runs_in(spec.run_folder).size());
}

std::optional<record::StateOfRun> state_of_runs(const JobSpec& spec) {
  if (spec.run_folder.empty()) return std::nullopt;
  std::optional<record::StateOfRun> newest;
  int64_t before = 0;
  for (const fs::path& run : runs_in(spec.run_folder)) {
    if (newest) before += std::max<int64_t>(0, newest->step);
    newest = record::state_of(run);
  }
  if (newest && newest->step >= 0) newest->step += before;
  return newest;
}

}  // namespace lockstep::jobs
