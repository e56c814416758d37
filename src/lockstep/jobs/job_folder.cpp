#include "lockstep/jobs/job_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/jobs/job_run.h"
#include "lockstep/jobs/left_folders.h"
#include "lockstep/record/known_part.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/state.h"

namespace lockstep::jobs {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostFileBytes = 16 << 20;
constexpr int64_t kAttemptsWithoutStep = 3;
constexpr int64_t kMostKills = 10;

template <Described T>
T parse_described(const fs::path& file) {
  try {
    T value;
    read_json(record::known_part<T>(parse_json(read_file(file, kMostFileBytes))), value,
              quote(file.string()));
    return value;
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt_data, quote(file.string()) + " is damaged: " + error.what());
  }
}

// What was written while power went away, or is being written over a network, is as good as not there.
std::optional<AttemptResult> result_in(const fs::path& file) {
  if (::access(file.c_str(), F_OK) != 0) return std::nullopt;
  try {
    return parse_described<AttemptResult>(file);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string text_of(const AttemptResult& result) {
  return to_json(result).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// A number above all that there are or were.
int64_t next_number(const fs::path& root) {
  int64_t number = parse_number<int64_t>(first_line_of(root / ".last")).value_or(0);
  if (number == 0) {
    for (const fs::directory_entry& entry : fs::directory_iterator(root))
      number = std::max(number, parse_number<int64_t>(entry.path().filename().string()).value_or(0));
  }
  return number + 1;
}

std::string path_list(const JobPaths& paths, const JobSpec& spec, const char* before) {
  std::vector<std::string> folders = spec.paths;
  if (!spec.shipped.empty()) folders.insert(folders.begin(), paths.shipped().string());
  if (before != nullptr && *before != 0) folders.emplace_back(before);
  return join(folders, ":");
}

}  // namespace

void write_file_quick(const fs::path& path, std::string_view bytes) {
  fs::path neighbour = path;
  // Processes of other machines, and of containers, may have this one's number.
  neighbour += "." + random_hex(8) + ".part";
  try {
    OpenFile file(neighbour, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(bytes);
    file.close();
    rename_path(neighbour, path);
  } catch (...) {
    ::unlink(neighbour.c_str());
    throw;
  }
}

fs::path jobs_folder() {
  const fs::path chosen = environment_variable("LOCKSTEP_JOBS"), home = environment_variable("HOME");
  if (chosen.is_absolute()) return chosen;
  if (!chosen.empty())
    throw Error(ErrorCode::invalid_option,
                "the environment variable LOCKSTEP_JOBS cannot be " + quote(chosen.string()) +
                    ": it is not an absolute path",
                chosen.native().starts_with('~')
                    ? "write $HOME in place of ~"
                    : "export LOCKSTEP_JOBS=$PWD/" + shell_word(chosen.lexically_normal().string()));
  if (home.is_absolute()) return home / "lockstep-jobs";
  throw Error(ErrorCode::not_found, "there is no folder for jobs: HOME is not set",
              "set LOCKSTEP_JOBS to an absolute path");
}

JobPaths make_job(const fs::path& root, const JobSpec& spec, const Fill& fill) {
  make_folders(root);
  const JobPaths hidden{root / (std::string(kNewFolder) + random_hex(8))};
  if (::mkdir(hidden.folder.c_str(), 0755) != 0) throw errno_error(errno, "create", hidden.folder.string());
  try {
    sign_folder(hidden.folder);
    if (fill) fill(hidden);
    OpenFile file(hidden.spec(), O_WRONLY | O_CREAT | O_EXCL);
    // A command may have a secret among its words.
    if (::fchmod(file.get(), S_IRUSR | S_IWUSR) != 0)
      throw errno_error(errno, "protect", hidden.spec().string());
    file.write(to_json(spec).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    for (int64_t number = next_number(root);; ++number) {
      const JobPaths paths{root / std::to_string(number)};
      if (::access(paths.folder.c_str(), F_OK) == 0) continue;
      // Before the job is there: who sees it goes on from its number, so the last one written is the highest.
      write_file_quick(root / ".last", std::to_string(number) + "\n");
      if (::rename(hidden.folder.c_str(), paths.folder.c_str()) == 0) {
        remove_sign(paths.folder);
        // After the rename: the disk's journal then writes both at once. Nobody knows the job yet.
        file.sync();
        file.close();
        sync_folder(root);
        return paths;
      }
      if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
        throw errno_error(errno, "create", paths.folder.string());
    }
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(hidden.folder, ignored);
    throw;
  }
}

JobSpec read_spec(const JobPaths& paths) {
  JobSpec spec = parse_described<JobSpec>(paths.spec());
  if (spec.command.empty())
    throw Error(ErrorCode::corrupt_data, quote(paths.spec().string()) + " is damaged: it has no command");
  if (!spec.run_folder.empty()) spec.run_folder = (paths.folder / spec.run_folder).string();
  return spec;
}

int64_t newest_attempt(const JobPaths& paths) {
  return parse_number<int64_t>(first_line_of(paths.attempt())).value_or(0);
}

int64_t begin_attempt(const JobPaths& paths) {
  for (int64_t attempt = newest_attempt(paths) + 1;; ++attempt) {
    if (::mkdir(paths.attempt_folder(attempt).c_str(), 0755) == 0) {
      try {
        write_file_quick(paths.attempt(), std::to_string(attempt) + "\n");
      } catch (...) {
        ::rmdir(paths.attempt_folder(attempt).c_str());  // each start would leave one while the disk is full
        throw;
      }
      return attempt;
    }
    if (errno != EEXIST) throw errno_error(errno, "create", paths.attempt_folder(attempt).string());
  }
}

void sync_attempt(const JobPaths& paths) {
  OpenFile file(paths.attempt(), O_RDONLY);
  file.sync();
  file.close();
  sync_folder(paths.folder);
}

std::optional<AttemptResult> read_attempt(const JobPaths& paths, int64_t attempt) {
  return result_in(paths.result(attempt));
}

std::optional<AttemptResult> read_result(const JobPaths& paths) { return result_in(paths.result()); }

void end_job(const JobPaths& paths, AttemptEnd end, const std::string& reason) {
  write_file_quick(paths.result(), text_of({.end = end,
                                            .attempt = newest_attempt(paths),
                                            .status = 1,
                                            .reason = reason,
                                            .ended = now_seconds()}));
}

void end_attempt(const JobPaths& paths, const AttemptResult& result) {
  const std::string text = text_of(result);
  if (result.attempt > 0) write_file_quick(paths.result(result.attempt), text);
  if (is_final(result.end) && newest_attempt(paths) <= result.attempt && !read_result(paths))
    write_file_quick(paths.result(), text);
}

void forget_result(const JobPaths& paths) {
  write_file_quick(paths.requeued(), std::to_string(newest_attempt(paths)) + "\n");
  ::unlink(paths.cancelled().c_str());
  if (::unlink(paths.result().c_str()) != 0 && errno != ENOENT)
    throw errno_error(errno, "remove", paths.result().string());
}

bool has_spec(const JobPaths& paths) { return ::access(paths.spec().c_str(), F_OK) == 0; }

bool is_forgotten(const JobPaths& paths, int64_t attempt) {
  return parse_number<int64_t>(first_line_of(paths.requeued())).value_or(0) >= attempt;
}

// An empty file can be made on a full disk too.
void mark_cancelled(const JobPaths& paths) {
  const Descriptor made(::open(paths.cancelled().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!made) throw errno_error(errno, "create", paths.cancelled().string());
}

bool is_marked_cancelled(const JobPaths& paths) { return ::access(paths.cancelled().c_str(), F_OK) == 0; }

std::vector<std::string> command_of(const JobSpec& spec) {
  std::vector<std::string> command = spec.command;
  const bool has_output = std::any_of(command.begin(), command.end(), [](const std::string& word) {
    return word == "--output" || word.starts_with("--output=");
  });
  if (!spec.run_folder.empty() && !has_output) {
    command.emplace_back("--output");
    command.push_back(spec.run_folder);
  }
  if (!spec.run_folder.empty() && has_begun(spec.run_folder) &&
      std::find(command.begin(), command.end(), "--resume") == command.end())
    command.emplace_back("--resume");
  return command;
}

std::vector<std::string> job_environment(const JobPaths& paths, const JobSpec& spec, int64_t attempt) {
  std::vector<std::string> variables{"LOCKSTEP_JOB=" + paths.folder.string(),
                                     "LOCKSTEP_JOB_ATTEMPT=" + std::to_string(attempt),
                                     "TORCHELASTIC_RESTART_COUNT=" + std::to_string(attempt - 1)};
  if (!spec.shipped.empty()) variables.push_back("LOCKSTEP_SHIPPED=" + paths.shipped().string());
  if (spec.shipped.empty() && spec.paths.empty()) return variables;
  for (const char* name : {"PATH", "LD_LIBRARY_PATH"})
    variables.push_back(std::string(name) + "=" + path_list(paths, spec, std::getenv(name)));
  return variables;
}

bool may_start_again(const JobSpec& spec) { return spec.requeue || !spec.run_folder.empty(); }

int64_t step_of(const JobSpec& spec) {
  const auto run = state_of_runs(spec);
  return run ? run->step : -1;
}

bool is_worth_another(const JobPaths& paths, const JobSpec& spec, int64_t attempt, int64_t step) {
  const int64_t first = parse_number<int64_t>(first_line_of(paths.requeued())).value_or(0) + 1;
  const int64_t count = attempt - first + 1;
  if (spec.run_folder.empty()) return count < kMostKills;
  if (count < kAttemptsWithoutStep) return true;
  for (int64_t earlier = attempt - kAttemptsWithoutStep + 1; earlier < attempt; ++earlier) {
    const auto result = read_attempt(paths, earlier);
    if (!result || result->step != step) return true;
  }
  return false;
}

}  // namespace lockstep::jobs
