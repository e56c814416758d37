#include "lockstep/record/event_log.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <map>
#include <optional>
#include <tuple>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/seconds.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/follower.h"
#include "lockstep/record/log_name.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::record {
namespace {

bool is_of_rank(std::string_view writer) { return writer.starts_with("rank-"); }

// For each attempt, the first step that a later attempt repeated.
std::map<int64_t, int64_t> replaced_from(const std::vector<Event>& events) {
  std::map<int64_t, int64_t> first_step;
  for (const Event& event : events) {
    if (!is_of_rank(event.writer)) continue;
    first_step.try_emplace(event.attempt, std::numeric_limits<int64_t>::max());
    // Where epochs are long, the first step is not among those that are logged.
    if (event.kind == "step" || event.kind == "first_step")
      first_step[event.attempt] = std::min(first_step[event.attempt], event.step);
  }
  std::map<int64_t, int64_t> limits;
  int64_t limit = std::numeric_limits<int64_t>::max();
  for (auto attempt = first_step.rbegin(); attempt != first_step.rend(); ++attempt) {
    limits[attempt->first] = limit;
    limit = std::min(limit, attempt->second);
  }
  return limits;
}

// One more than the highest attempt of the writers for which `counts` holds.
template <class Counts>
int64_t attempt_after(const std::filesystem::path& run_folder, Counts counts) {
  int64_t next = 0;
  for (const LogFile& file : log_files(run_folder)) {
    if (counts(file.name.writer)) next = std::max(next, file.name.attempt + 1);
  }
  return next;
}

}  // namespace

struct EventLog::State {
  std::filesystem::path path;
  int descriptor = -1;
  int64_t rank = 0;
  int64_t attempt = 0;
  int64_t sequence = 0;
  int64_t dropped_count = 0;
  off_t size_bytes = 0;
  double last_time = 0;
  bool failed = false;
};

EventLog::EventLog(const std::filesystem::path& run_folder, int64_t rank, int64_t attempt)
    : EventLog(run_folder, rank_writer(rank), attempt) {
  state_->rank = rank;
}

EventLog::EventLog(const std::filesystem::path& run_folder, const std::string& writer, int64_t attempt)
    : state_(std::make_unique<State>()) {
  const std::filesystem::path folder = RunPaths{run_folder}.events();
  make_folders(folder);
  state_->attempt = attempt;
  state_->path = folder / file_name({writer, attempt});
  state_->descriptor = ::open(state_->path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (state_->descriptor < 0) throw errno_error(errno, "create", state_->path.string());
}

EventLog::~EventLog() {
  if (state_->descriptor >= 0) ::close(state_->descriptor);
}

int64_t EventLog::dropped_count() const { return state_->dropped_count; }

void EventLog::write(Event& event) {
  State& state = *state_;
  const double now = now_seconds();
  // The order of events must not change if the clock is set back.
  state.last_time = std::max(state.last_time, event.time > 0 ? event.time : now);
  event.time = state.last_time;
  event.rank = state.rank;
  event.attempt = state.attempt;
  event.sequence = state.sequence++;
  if (state.failed) {
    ++state.dropped_count;
    return;
  }
  const std::string line = to_line(event) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = ::write(state.descriptor, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;
      state.failed = true;
      ++state.dropped_count;
      if (::ftruncate(state.descriptor, state.size_bytes) != 0) {
        // The incomplete line stays as the last line, which readers ignore.
      }
      throw errno_error(reason, "write", state.path.string());
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  state.size_bytes += static_cast<off_t>(line.size());
}

int64_t next_attempt(const std::filesystem::path& run_folder) {
  return attempt_after(run_folder, is_of_rank);
}

int64_t next_attempt(const std::filesystem::path& run_folder, const std::string& writer) {
  return attempt_after(run_folder, [&](std::string_view name) { return name == writer; });
}

std::optional<Event> end_of_last_attempt(const std::filesystem::path& run_folder) {
  const int64_t last = next_attempt(run_folder) - 1;
  std::optional<Event> end;
  Follower follower(run_folder);
  follower.read_all([&](const Event& event) {
    if (event.attempt == last && event.kind == End::kind && is_of_rank(event.writer)) end = event;
  });
  return end;
}

std::vector<Event> read_events(const std::filesystem::path& run_folder) {
  if (log_files(run_folder).empty()) {
    throw Error(ErrorCode::not_found, "\"" + run_folder.string() + "\" has no event log",
                "name the --output folder of a run");
  }
  std::vector<Event> events;
  Follower follower(run_folder);
  follower.read_all([&](const Event& event) { events.push_back(event); });
  const auto limits = replaced_from(events);
  std::erase_if(events, [&](const Event& event) {
    const auto limit = limits.find(event.attempt);
    return is_of_rank(event.writer) && is_replaced_with_its_step(event.kind) && limit != limits.end() &&
           event.step >= limit->second;
  });
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.step, a.attempt, a.time, a.rank, a.sequence) <
           std::tie(b.step, b.attempt, b.time, b.rank, b.sequence);
  });
  return events;
}

}  // namespace lockstep::record
