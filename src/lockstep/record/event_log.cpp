#include "lockstep/record/event_log.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/seconds.h"
#include "lockstep/record/damaged_log.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/follower.h"
#include "lockstep/record/log_name.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::record {
namespace {

constexpr int64_t kNoStep = std::numeric_limits<int64_t>::max();

// An attempt, and how often its run had begun again by then (train/loop/restart.h).
using Pass = std::pair<int64_t, int64_t>;

// Where epochs are long, the first step is not among those that are logged.
bool tells_step(const Event& event) { return event.kind == Step::kind || event.kind == FirstStep::kind; }

// Which events of the ranks are those of steps that a later pass has made again.
class Passes {
 public:
  // Events of one log in their order.
  Pass add(const Event& event) {
    auto& [pass, last_step] = logs_.try_emplace({event.writer, event.attempt}, 0, 0).first->second;
    if (tells_step(event)) {
      if (event.step < last_step) ++pass;
      last_step = event.step;
    }
    const Pass of_event{event.attempt, pass};
    if (!is_of_rank(event.writer)) return of_event;
    int64_t& first = first_step_.try_emplace(of_event, kNoStep).first->second;
    if (tells_step(event)) first = std::min(first, event.step);
    return of_event;
  }

  // After the last event.
  void find_repeated() {
    int64_t limit = kNoStep;
    for (auto pass = first_step_.rbegin(); pass != first_step_.rend(); ++pass) {
      repeated_from_[pass->first] = limit;
      limit = std::min(limit, pass->second);
    }
  }

  // What an attempt has told its user stays when it begins again.
  bool is_replaced(const Event& event, const Pass& pass) const {
    if (!is_of_rank(event.writer) || !is_replaced_with_its_step(event.kind)) return false;
    auto found = repeated_from_.find(pass);
    if (event.kind == Message::kind) found = std::prev(repeated_from_.upper_bound({event.attempt, kNoStep}));
    return event.step >= found->second;
  }

 private:
  std::map<std::pair<std::string, int64_t>, std::pair<int64_t, int64_t>> logs_;  // pass, last step
  std::map<Pass, int64_t> first_step_;
  std::map<Pass, int64_t> repeated_from_;
};

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
  read_past_damage(run_folder, [&](const Event& event) {
    if (event.attempt == last && event.kind == End::kind && is_of_rank(event.writer)) end = event;
  });
  return end;
}

std::vector<Event> read_events(const std::filesystem::path& run_folder) {
  if (log_files(run_folder).empty()) {
    throw Error(ErrorCode::not_found, "\"" + run_folder.string() + "\" has no event log",
                "the log of a run is the files events/*.jsonl in its folder; lockstep runs lists runs");
  }
  std::vector<std::pair<Event, Pass>> read;
  Passes passes;
  Follower follower(run_folder);
  follower.read_all([&](const Event& event) { read.emplace_back(event, passes.add(event)); });
  passes.find_repeated();
  std::vector<Event> events;
  for (auto& [event, pass] : read) {
    if (!passes.is_replaced(event, pass)) events.push_back(std::move(event));
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.step, a.attempt, a.time, a.rank, a.sequence) <
           std::tie(b.step, b.attempt, b.time, b.rank, b.sequence);
  });
  return events;
}

}  // namespace lockstep::record
