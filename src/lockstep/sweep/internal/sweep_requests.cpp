#include "lockstep/sweep/internal/sweep_requests.h"

#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/regular_file.h"
#include "lockstep/base/text.h"
#include "lockstep/record/requests.h"
#include "lockstep/sweep/fetched_sweep.h"
#include "lockstep/sweep/shown_sweep.h"

namespace lockstep::sweep {

namespace fs = std::filesystem;

std::vector<SweepRequest> requests_in(const SweepPaths& paths) {
  std::vector<SweepRequest> requests;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(paths.requests(), none)) {
    // One with an extension is still being written; it gets its name when it is whole.
    if (!entry.path().filename().string().starts_with("ask-") || entry.path().has_extension()) continue;
    const std::string text = first_line_of(entry.path());
    const size_t blank = text.find(' ');
    SweepRequest request{.what = text.substr(0, blank), .file = entry.path()};
    if (blank != std::string::npos) {
      request.trial = parse_number<int64_t>(text.substr(blank + 1));
      if (!request.trial || *request.trial < 0)
        continue;  // a damaged file, which must not act on the whole sweep
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

void make_request(const SweepPaths& paths, const SweepRequest& request) {
  if (!is_worked_on(paths))
    throw Error(ErrorCode::not_found, "the sweep " + quote(paths.folder.string()) + " is not going on",
                fs::exists(paths.jobs())
                    ? "lockstep jobs lists its jobs, and lockstep job cancel takes those that "
                      "wait from the queue"
                    : "lockstep sweep show " + shown_sweep(paths) + " shows its trials");
  write_request(paths, request);
}

void write_request(const SweepPaths& paths, const SweepRequest& request) {
  make_folders(paths.requests());
  write_file_atomic(paths.requests() / ("ask-" + random_hex(8)),
                    request.what + (request.trial ? " " + std::to_string(*request.trial) : "") + "\n");
}

void ask_to_stop(const SweepPaths& paths, int64_t trial) {
  check_is_no_copy(paths, "stop SWEEP " + std::to_string(trial));
  make_request(paths, {.what = "stop", .trial = trial});
}
void ask_to_stop(const SweepPaths& paths) {
  check_is_no_copy(paths, "stop SWEEP");
  make_request(paths, {.what = "stop"});
}
void ask_jobs_to_stop(const SweepPaths& paths) {
  check_is_no_copy(paths, "stop SWEEP");
  write_request(paths, {.what = "stop"});
}

void ask_run_to_end(const SweepPaths& paths, int64_t trial) {
  if (record::is_end_asked(paths.trial(trial))) return;
  record::make_request(paths.trial(trial),
                       {.request = record::RequestKind::finish, .from = "lockstep sweep stop"});
}

void restart_trial(const SweepPaths& paths, LogWriter& log, int64_t trial) {
  fs::remove_all(paths.trial(trial));
  fs::remove(paths.output(trial));
  fs::remove(paths.parameters(trial));
  log.write({.kind = LogKind::restart, .trial = trial});
}

bool restart_now_or_ask(const SweepPaths& paths, int64_t trial) {
  check_is_no_copy(paths, "restart SWEEP " + std::to_string(trial));
  check_is_trial(paths, trial);
  if (is_shared_now(paths))
    throw Error(ErrorCode::invalid_option, "several programs work on the sweep",
                "stop it first: lockstep sweep stop " + shown_sweep(paths));
  const auto lock = jobs::FileLock::try_take(paths.lock());
  if (!lock) {
    make_request(paths, {.what = "restart", .trial = trial});
    return false;
  }
  LogWriter log(paths);
  restart_trial(paths, log, trial);
  return true;
}

void settle_earlier_requests(const SweepPaths& paths) {
  const bool is_shared = is_shared_now(paths);
  std::error_code none;
  for (const SweepRequest& asked : requests_in(paths)) {
    if (!asked.trial) {
      fs::remove(asked.file, none);
    } else if (!is_shared && asked.what == "restart") {
      LogWriter log(paths);
      restart_trial(paths, log, *asked.trial);
    }
  }
  if (!is_shared) fs::remove_all(paths.requests(), none);
}

void refuse_second_program(const SweepPaths& paths) {
  throw Error(ErrorCode::invalid_option, "another program works on the sweep " + quote(paths.folder.string()),
              "lockstep sweep watch " + shown_sweep(paths) + " shows it");
}

std::string spec_text(const SweepPaths& paths) {
  std::error_code none;
  return fs::exists(paths.spec(), none) ? read_regular_file(paths.spec(), kMostSpecBytes) : "";
}

namespace {

// Those of a program that was killed, which wait for their turn now.
void pause_running_trials(const SweepPaths& paths) {
  std::set<int64_t> running;
  for (const LogLine& line : read_log(paths)) {
    if (line.kind == LogKind::begin) running.insert(line.trial);
    if (line.kind != LogKind::begin && line.kind != LogKind::lost) running.erase(line.trial);
  }
  if (running.empty()) return;
  LogWriter log(paths);
  for (const int64_t trial : running) log.write({.kind = LogKind::pause, .trial = trial});
}

// With the lock of its jobs.
void begin_or_continue(const SweepPaths& paths, const SweepSpec& spec, const FoundSpec& found) {
  if (found && spec_text(paths) != *found)
    throw Error(ErrorCode::invalid_option,
                "another program has " + std::string(found->empty() ? "begun" : "changed") + " the sweep " +
                    quote(paths.folder.string()) + " meanwhile",
                "repeat the command, which then continues it, or choose another --output");
  settle_earlier_requests(paths);
  write_spec(paths, spec);
  if (!is_shared_now(paths)) pause_running_trials(paths);
}

}  // namespace

// Whoever begins a sweep has the lock of its jobs first, so that one of several begins.
jobs::FileLock begin_alone(const SweepPaths& paths, const SweepSpec& spec, const FoundSpec& found) {
  const auto beginning = jobs::FileLock::try_take(paths.jobs_lock());
  if (!beginning) refuse_second_program(paths);
  auto lock = jobs::FileLock::try_take(paths.lock());
  if (!lock || is_shared_now(paths)) refuse_second_program(paths);
  begin_or_continue(paths, spec, found);
  return std::move(*lock);
}

jobs::FileLock prepare_shared_sweep(const SweepPaths& paths, const SweepSpec& spec, const FoundSpec& found) {
  make_folders(paths.folder);
  auto lock = jobs::FileLock::try_take(paths.jobs_lock());
  if (!lock || jobs::is_held(paths.lock())) refuse_second_program(paths);
  std::error_code none;
  if (is_shared_now(paths) && std::filesystem::exists(paths.spec(), none) &&
      read_spec(paths).options.count != spec.options.count)
    throw Error(
        ErrorCode::invalid_option,
        "jobs work on the sweep " + quote(paths.folder.string()) + ", which has --count " +
            std::to_string(read_spec(paths).options.count),
        "give it more trials when they have ended; lockstep sweep stop " + shown_sweep(paths) + " ends them");
  begin_or_continue(paths, spec, found);
  return std::move(*lock);
}

}  // namespace lockstep::sweep
