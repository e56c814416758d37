#include "lockstep/jobs/local_queue.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <sched.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/jobs/left_folders.h"
#include "lockstep/launch/process.h"
#include "lockstep/record/known_part.h"

namespace lockstep::jobs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIntent = "intent-";
constexpr double kStaleIntentSeconds = 5;
constexpr std::chrono::seconds kOrphanGrace{20};
constexpr std::chrono::milliseconds kLockInterval{50};

// Sorts by priority, then by number.
std::string entry_name(int64_t priority, const std::string& id) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "%020llu-%015lld",
                static_cast<unsigned long long>(INT64_MAX) - static_cast<unsigned long long>(priority),
                static_cast<long long>(parse_number<int64_t>(id).value_or(0)));
  return name.data();
}

std::string id_in(const std::string& entry) {
  const std::string digits = entry.substr(entry.find('-') + 1);
  return digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
}

void make_empty(const fs::path& file) {
  const Descriptor made(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!made) throw errno_error(errno, "create", file.string());
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Of makers whose processes may be gone.
std::vector<fs::path> stale_intents(const fs::path& folder) {
  std::vector<fs::path> stale;
  for (const std::string& name : names_in(folder)) {
    struct stat status {};
    if (name.starts_with(kIntent) && ::stat((folder / name).c_str(), &status) == 0 &&
        now_seconds() - static_cast<double>(status.st_mtim.tv_sec) > kStaleIntentSeconds)
      stale.push_back(folder / name);
  }
  return stale;
}

bool is_present(const fs::path& path) { return ::access(path.c_str(), F_OK) == 0; }

// One that a loss of power left empty is none.
bool has_result(const JobPaths& paths) {
  struct stat status {};
  return ::stat(paths.result().c_str(), &status) == 0 && status.st_size > 0;
}

}  // namespace

QueueLimits machine_limits() {
  cpu_set_t cores{};
  QueueLimits limits{.workers = 1, .memory = int64_t{1} << 62};
  if (::sched_getaffinity(0, sizeof cores, &cores) == 0) limits.workers = CPU_COUNT(&cores);
  struct sysinfo machine {};
  if (::sysinfo(&machine) == 0) limits.memory = static_cast<int64_t>(machine.totalram) * machine.mem_unit;
  return limits;
}

/// The queue while no other process changes it. Short: nothing in it waits for anything else.
class LocalQueue::Moment {
 public:
  explicit Moment(const LocalQueue& queue)
      : queue_(queue), lock_(FileLock::take(queue.folder_ / "lock")), limits_(queue.limits()) {}

  fs::path waiting(const JobPaths& paths, const JobSpec& spec) const {
    return queue_.folder_ / "waiting" / entry_name(spec.priority, paths.id());
  }
  fs::path running(const JobPaths& paths) const { return queue_.folder_ / "running" / paths.id(); }

  /// What runs, by the locks. Jobs that are over or gone leave the list.
  void look_at_running() {
    used_ = {};
    for (const std::string& id : names_in(queue_.folder_ / "running")) {
      const JobPaths paths{queue_.root_ / id};
      if (has_spec(paths) && is_held(paths.lock()) && !has_result(paths)) {
        std::ifstream entry(running(paths));
        int64_t workers = 1, memory = 0;
        entry >> workers >> memory;
        used_.workers += workers;
        used_.memory += memory;
        continue;
      }
      if (!has_spec(paths) || try_settle(paths)) ::unlink(running(paths).c_str());
    }
  }

  /// Settles a job whose attempt is gone without a result, or puts it into the list in which it is missing.
  void look_at(const JobPaths& paths) const {
    if (!parse_number<int64_t>(paths.id()) || has_result(paths) || is_present(running(paths))) return;
    JobSpec spec;
    try {
      spec = read_spec(paths);
    } catch (const Error&) {
      return;  // the list of jobs says so
    }
    if (spec.scheduler != "local" || is_elsewhere(spec) || is_present(waiting(paths, spec))) return;
    if (is_held(paths.lock()))
      std::ofstream(running(paths)) << spec.workers << ' ' << spec.memory << '\n';
    else
      try_settle(paths);
  }

  /// The first job that waits for nothing but workers and memory, if there are enough; takes it only with
  /// `take`.
  std::optional<BegunAttempt> next(bool take) {
    if (used_.workers >= limits_.workers) return std::nullopt;
    for (const std::string& entry : names_in(queue_.folder_ / "waiting")) {
      const JobPaths paths{queue_.root_ / id_in(entry)};
      if (!has_spec(paths) || has_result(paths)) {
        ::unlink((queue_.folder_ / "waiting" / entry).c_str());
        continue;
      }
      if (is_marked_cancelled(paths)) {
        if (try_settle(paths)) ::unlink((queue_.folder_ / "waiting" / entry).c_str());
        continue;
      }
      const auto known = spec_of(paths);
      if (!known || !is_ready(paths, *known)) continue;
      const JobSpec& spec = *known;
      if (!fits(spec)) return std::nullopt;  // those behind it do not overtake it
      auto lock = FileLock::try_take(paths.lock());
      if (!lock) continue;  // a process that its last attempt left behind
      BegunAttempt begun{.paths = paths, .spec = spec, .lock = *std::move(lock)};
      if (take) begin(begun, entry);
      return begun;
    }
    return std::nullopt;
  }

  void add(const JobPaths& paths, const JobSpec& spec) const { make_empty(waiting(paths, spec)); }

  /// Of a job whose lock nobody holds: the end of an attempt that left none. It waits again or is over.
  void settle(const JobPaths& paths) const {
    const auto lock = FileLock::try_take(paths.lock());
    if (!lock) return;
    const auto known = spec_of(paths);
    if (!known) return;
    const JobSpec& spec = *known;
    const StateOfJob found = state_of(paths, spec);
    if (found.result) return;
    const int64_t attempt = found.attempt;
    if (attempt > 0 && !found.previous) {
      end_attempt(paths, result_of_lost(paths, spec, attempt));
    } else if (found.previous && is_final(found.previous->end) && !is_forgotten(paths, attempt)) {
      end_attempt(paths, *found.previous);  // its runner ended between the two writings
    } else if (is_marked_cancelled(paths)) {
      end_job(paths, AttemptEnd::cancelled, "");
    }
    if (!has_result(paths)) add(paths, spec);
  }

  /// Returns false if nothing could be written, as on a full disk: the other jobs go on, and a later look
  /// settles this one.
  bool try_settle(const JobPaths& paths) const {
    try {
      settle(paths);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::io) throw;
      return false;
    }
    return true;
  }

  /// Where that cannot be written, the next look finds the same.
  void try_end(const JobPaths& paths, AttemptEnd end, const std::string& reason) const {
    try {
      end_job(paths, end, reason);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::io) throw;
    }
  }

  // One damaged job must not keep the others waiting.
  std::optional<JobSpec> spec_of(const JobPaths& paths) const {
    try {
      return read_spec(paths);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::corrupt_data && error.code() != ErrorCode::invalid_option) throw;
      try_end(paths, AttemptEnd::failed, error.message());
      return std::nullopt;
    }
  }

 private:
  // Whether the jobs that it follows have ended well; if one never will, it is over too.
  bool is_ready(const JobPaths& paths, const JobSpec& spec) const {
    for (const std::string& id : spec.after) {
      const JobPaths before{queue_.root_ / id};
      if (!has_spec(before)) {
        try_end(paths, AttemptEnd::cancelled, "job " + id + ", which it follows, was deleted");
        return false;
      }
      const auto result = read_result(before);
      if (!result) return false;
      if (result->end == AttemptEnd::ended) continue;
      try_end(paths, AttemptEnd::cancelled,
              "job " + id + ", which it follows, " +
                  (result->end == AttemptEnd::cancelled ? "was cancelled" : "failed"));
      return false;
    }
    return true;
  }

  bool fits(const JobSpec& spec) const {
    if (used_.workers == 0 && used_.memory == 0) return true;  // alone, whatever it asks for
    return spec.workers <= limits_.workers - used_.workers && spec.memory <= limits_.memory - used_.memory;
  }

  void begin(BegunAttempt& begun, const std::string& entry) {
    begun.attempt = begin_attempt(begun.paths);
    std::ofstream(running(begun.paths)) << begun.spec.workers << ' ' << begun.spec.memory << '\n';
    ::unlink((queue_.folder_ / "waiting" / entry).c_str());
    used_.workers += begun.spec.workers;
    used_.memory += begun.spec.memory;
  }

  const LocalQueue& queue_;
  FileLock lock_;
  QueueLimits limits_, used_{};
};

LocalQueue::LocalQueue(fs::path root) : root_(std::move(root)), folder_(root_ / ".queue" / host_name()) {
  for (const char* name : {"waiting", "running"}) {
    if (!is_present(folder_ / name)) make_folders(folder_ / name);
  }
}

QueueLimits LocalQueue::limits() const {
  const fs::path file = folder_ / "limits.json";
  QueueLimits limits = machine_limits(), chosen;
  if (!is_present(file)) return limits;
  constexpr int64_t kMostBytes = 65'536;
  try {
    read_json(record::known_part<QueueLimits>(parse_json(read_file(file, kMostBytes))), chosen,
              quote(file.string()));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt_data, quote(file.string()) + " is damaged: " + error.what(), "remove it");
  }
  if (chosen.workers > 0) limits.workers = chosen.workers;
  if (chosen.memory > 0) limits.memory = chosen.memory;
  return limits;
}

void LocalQueue::set_limits(const QueueLimits& limits) const {
  QueueLimits all = this->limits();
  if (limits.workers > 0) all.workers = limits.workers;
  if (limits.memory > 0) all.memory = limits.memory;
  write_file_quick(folder_ / "limits.json", to_json(all).dump() + "\n");
}

LocalQueue::Making::Making(const LocalQueue& queue) : sign_(queue.folder_ / (kIntent + random_hex(8))) {
  make_empty(sign_);
}

LocalQueue::Making::~Making() { ::unlink(sign_.c_str()); }

bool LocalQueue::is_empty() const {
  // Entries of jobs that are over stay until the next wake.
  const auto goes_on = [&](const std::string& id) {
    const JobPaths paths{root_ / id};
    return has_spec(paths) && !has_result(paths);
  };
  std::vector<std::string> ids = names_in(folder_ / "running");
  for (const std::string& entry : names_in(folder_ / "waiting")) ids.push_back(id_in(entry));
  return std::none_of(ids.begin(), ids.end(), goes_on);
}

void LocalQueue::add(const JobPaths& paths) const {
  make_empty(folder_ / "waiting" / entry_name(read_spec(paths).priority, paths.id()));
}

bool LocalQueue::cancel(const JobPaths& paths) const {
  const JobSpec spec = read_spec(paths);
  {
    Moment moment(*this);
    const JobState state = state_of(paths, spec).state;
    if (is_over(state)) return false;
    mark_cancelled(paths);
    if (state != JobState::running) {
      if (state == JobState::lost) moment.try_settle(paths);
      if (!has_result(paths)) moment.try_end(paths, AttemptEnd::cancelled, "");
      ::unlink(moment.waiting(paths, spec).c_str());
      ::unlink(moment.running(paths).c_str());
      return true;
    }
  }
  // Its runner sees the mark. Without a runner, which may also end meanwhile, this process ends what the
  // attempt has left.
  std::optional<Started> left;
  std::chrono::steady_clock::time_point killing;
  while (is_held(paths.lock()) && !has_result(paths)) {
    const auto now = std::chrono::steady_clock::now();
    if (const auto started = read_started(paths, newest_attempt(paths));
        !left && started && record::is_there(started->runner) == false) {
      left = started;
      signal_left(*left, SIGTERM);
      killing = now + kOrphanGrace;
    }
    if (left && now > killing) signal_left(*left, SIGKILL);
    if (left && now > killing + kOrphanGrace) break;
    std::this_thread::sleep_for(kLockInterval);
  }
  Moment moment(*this);
  moment.try_settle(paths);
  if (left && !has_result(paths))
    moment.try_end(paths, AttemptEnd::cancelled, "a process that it started has left its group and goes on");
  return true;
}

void LocalQueue::tidy() const {
  const std::vector<fs::path> stale = stale_intents(folder_);
  std::vector<std::string> all;
  {
    Moment moment(*this);
    all = names_in(root_);  // with what these makers have made until now
    moment.look_at_running();
    for (const std::string& name : all) moment.look_at({root_ / name});
    for (const fs::path& file : stale) ::unlink(file.c_str());
  }
  for (const std::string& name : all) remove_if_left(root_ / name);
}

void LocalQueue::wake(const std::vector<std::string>& program) const {
  if (!stale_intents(folder_).empty()) tidy();
  {
    Moment moment(*this);
    moment.look_at_running();
    if (!moment.next(/*take=*/false)) return;
  }
  std::vector<std::string> words = program;
  words.push_back(root_.string());
  launch::start_detached({.program = words.front(), .words = words}, log_file());
}

void LocalQueue::run(const std::vector<std::string>& program) {
  Variables own;
  for (char* const* entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    own[text.substr(0, text.find('='))] = text.substr(std::min(text.size(), text.find('=') + 1));
  }
  while (true) {
    std::optional<BegunAttempt> begun;
    bool is_another = false;
    {
      Moment moment(*this);
      moment.look_at_running();
      begun = moment.next(/*take=*/true);
      if (begun) is_another = moment.next(/*take=*/false).has_value();
    }
    if (!begun) return;
    if (is_another) wake(program);
    const bool goes_on = run_local_attempt(*begun, own);
    begun.reset();
    ::clearenv();
    for (const auto& [name, value] : own) ::setenv(name.c_str(), value.c_str(), 1);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {  // runners that this one has started
    }
    if (goes_on) continue;
    Moment(*this).look_at_running();
    return;
  }
}

}  // namespace lockstep::jobs
