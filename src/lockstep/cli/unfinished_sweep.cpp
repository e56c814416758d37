#include "lockstep/cli/unfinished_sweep.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/cli/sweep_table.h"
#include "lockstep/sweep/fetched_sweep.h"

namespace lockstep::cli {
namespace {

bool can_go_on(const sweep::SweepPaths& paths, const sweep::SweepSpec& asked) {
  try {
    sweep::check_is_no_copy(paths, "");
    const sweep::SweepSpec spec = sweep::read_spec(paths);
    if (sweep::difference(spec, asked) || spec.working_folder != asked.working_folder) return false;
    return !sweep::is_worked_on(paths) && !is_complete(sweep::read_table(paths), planned_trials(spec));
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::optional<sweep::SweepPaths> unfinished_sweep(const std::filesystem::path& parent,
                                                  const sweep::SweepSpec& asked) {
  std::error_code none;
  std::vector<std::filesystem::path> folders;
  for (std::filesystem::directory_iterator entry(parent, none), end; !none && entry != end;
       entry.increment(none))
    folders.push_back(entry->path());
  std::ranges::sort(folders, std::greater());
  for (const std::filesystem::path& folder : folders) {
    const sweep::SweepPaths paths{folder};
    if (std::filesystem::exists(paths.spec(), none) && can_go_on(paths, asked)) return paths;
  }
  return std::nullopt;
}

}  // namespace lockstep::cli
