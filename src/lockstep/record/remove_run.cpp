#include "lockstep/record/remove_run.h"

#include <algorithm>
#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/record/not_a_run.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/state.h"
#include "lockstep/record/summary.h"

namespace lockstep::record {
namespace {

// What makes the folder a run's goes last, so that a removal that was interrupted can be repeated.
std::vector<std::filesystem::path> files_of_run(const RunPaths& paths) {
  return {paths.checkpoints(), paths.tensorboard(),  paths.requests(), paths.curves(), paths.report(),
          paths.listing(),     paths.best_weights(), paths.weights(),  paths.result(), paths.confusion(),
          paths.events(),      paths.options(),      paths.status(),   paths.lock()};
}

std::string unfinished(const std::filesystem::path& path) { return path.filename().string() + ".part"; }

bool is_of_run(const RunPaths& paths, const std::string& name) {
  const std::vector<std::filesystem::path> files = files_of_run(paths);
  return name.starts_with(RunPaths::kClock) || std::any_of(files.begin(), files.end(), [&](const auto& path) {
           return path.filename() == name || unfinished(path) == name;
         });
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  std::filesystem::directory_iterator entries(folder, code);
  for (; !code && entries != std::filesystem::directory_iterator(); entries.increment(code))
    names.push_back(entries->path().filename().string());
  if (code) throw errno_error(code.value(), "list", folder.string());
  std::sort(names.begin(), names.end());
  return names;
}

void remove_tree(const std::filesystem::path& path) {
  std::error_code code;
  std::filesystem::remove_all(path, code);  // removes links, follows none
  if (code) throw errno_error(code.value(), "remove", path.string());
}

// "runs/a/" and "runs/a/." name what the link runs/a leads to; "." and ".." cannot be removed by these names.
std::filesystem::path without_end(const std::filesystem::path& folder) {
  std::string text = folder.native();
  while (text.size() > 1 && (text.ends_with('/') || text.ends_with("/."))) text.pop_back();
  if (text != "." && text != ".." && !text.ends_with("/..")) return text;
  std::error_code none;
  const std::filesystem::path whole = std::filesystem::canonical(text, none);
  return none ? std::filesystem::path(text) : whole;
}

}  // namespace

void check_removable(const std::filesystem::path& run_folder) {
  const std::filesystem::path folder = without_end(run_folder);
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) throw errno_error(errno, "remove", folder.string());
  if (S_ISLNK(status.st_mode))
    throw Error(ErrorCode::invalid_option, quote(folder.native()) + " is a link to a folder",
                "name the folder itself");
  if (!S_ISDIR(status.st_mode) || !is_run_folder(folder)) throw not_a_run(folder);
  RunState state = RunState::lost;
  try {
    state = state_of(folder).state;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt_data) throw;  // a damaged run is a run
  }
  if (state == RunState::running || state == RunState::stopping)
    throw Error(ErrorCode::invalid_option,
                quote(folder.native()) + " is " + enum_names(state)[static_cast<size_t>(state)],
                "stop it first: lockstep stop " + shell_word(folder.string()));
}

RemovedRun remove_run(const std::filesystem::path& run_folder) {
  check_removable(run_folder);
  const RunPaths paths{without_end(run_folder)};
  RemovedRun removed;
  {
    const RunFolder own = RunFolder::open(paths.folder);  // nobody resumes it meanwhile
    const std::vector<std::filesystem::path> files = files_of_run(paths);
    for (const std::string& name : names_in(paths.folder)) {
      const bool is_main =
          std::any_of(files.begin(), files.end(), [&](const auto& path) { return path.filename() == name; });
      if (!is_of_run(paths, name))
        removed.kept.push_back(name);
      else if (!is_main)
        remove_tree(paths.folder / name);
    }
    for (const std::filesystem::path& path : files) remove_tree(path);
  }
  if (removed.kept.empty() && ::rmdir(paths.folder.c_str()) != 0)
    throw errno_error(errno, "remove", paths.folder.string());
  return removed;
}

void remove_unfinished_files(const std::filesystem::path& run_folder) {
  const RunPaths paths{run_folder};
  std::error_code code;
  for (const std::filesystem::path& path : files_of_run(paths)) {
    if (path != paths.status()) std::filesystem::remove(run_folder / unfinished(path), code);
  }
}

}  // namespace lockstep::record
