#include "lockstep/pool/session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "lockstep/base/host.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/device/inventory.h"
#include "lockstep/device/memory.h"
#include "lockstep/pool/internal/dispatcher.h"
#include "lockstep/pool/internal/launched_ranks.h"

namespace lockstep::pool {
namespace {

constexpr int64_t kMostWorkers = 4096;
constexpr std::chrono::milliseconds kLeastSilence{1000};  // four beats
constexpr std::chrono::milliseconds kLongestWait =
    std::chrono::hours(24 * 365);  // clocks count nanoseconds, and overflow after 292 years

// Throws unless each one exists and is named once.
void check_gpus(const std::vector<int64_t>& wanted, const device::Inventory& machine) {
  std::vector<std::string> there;
  for (const device::Gpu& gpu : machine.gpus)
    there.push_back(std::to_string(gpu.index) + " (" + gpu.name + ")");
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::string gpu = "GPU " + std::to_string(wanted[i]);
    if (machine.gpus.empty())
      throw Error(ErrorCode::device,
                  "a pool cannot be opened on " + gpu + ": there is no GPU to use: " + machine.gpu_note,
                  join({machine.gpu_hint, "a pool without .gpus works without"}, "; "));
    if (std::none_of(machine.gpus.begin(), machine.gpus.end(),
                     [&](const device::Gpu& one) { return one.index == wanted[i]; })) {
      throw Error(ErrorCode::device,
                  "a pool cannot be opened on " + gpu + ", which is not there: this machine has GPU " +
                      join(there, ", "),
                  "name one of them in .gpus");
    }
    if (std::find(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(i), wanted[i]) !=
        wanted.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw Error(ErrorCode::invalid_option, "a pool's .gpus name " + gpu + " twice",
                  "for two workers on a GPU say .workers");
    }
  }
}

void check_numbers(const PoolOptions& options) {
  if (options.workers < 0 || options.workers > kMostWorkers) {
    throw Error(ErrorCode::invalid_option,
                "a pool cannot have " + std::to_string(options.workers) + " workers",
                "from 1 to 4096, or 0 for one on each GPU or core");
  }
  if (options.silence < kLeastSilence)
    throw Error(ErrorCode::invalid_option,
                "a worker's silence of " + std::to_string(options.silence.count()) +
                    " ms is too short to tell that it hangs",
                "1 s or more");
  for (const auto& [time, name] :
       {std::pair{options.silence, "silence"}, std::pair{options.start_time, "start_time"}}) {
    if (time > std::chrono::milliseconds(0) && time <= kLongestWait) continue;
    throw Error(ErrorCode::invalid_option,
                std::string("a pool's ") + name + " cannot be " + std::to_string(time.count()) + " ms",
                "more than 0, at most a year");
  }
}

// The GPU of each worker, -1 for none.
std::vector<int64_t> gpus_of_workers(const PoolOptions& options) {
  const device::Inventory machine = device::inspect();
  check_gpus(options.gpus, machine);
  std::vector<int64_t> gpus = options.gpus;
  if (gpus.empty()) {
    for (const device::Gpu& gpu : machine.gpus) gpus.push_back(gpu.index);
  }
  const auto count = static_cast<int64_t>(gpus.size());
  const int64_t workers = options.workers > 0 ? options.workers : count > 0 ? count : machine.cores;
  if (!options.gpus.empty() && workers % count != 0) {
    throw Error(
        ErrorCode::invalid_option,
        std::to_string(workers) + " workers cannot share the " + std::to_string(count) +
            " GPUs of a pool evenly",
        ".workers = " + std::to_string(divided_up(workers, count) * count) + ", or leave the number out");
  }
  std::vector<int64_t> of_workers;
  for (int64_t worker = 0; worker < workers; ++worker) {
    const int64_t place = options.gpus.empty() ? worker : owner_of(workers, count, worker);
    of_workers.push_back(place < count ? gpus[static_cast<size_t>(place)] : -1);
  }
  return of_workers;
}

bool fits(const Pool& pool, const PoolOptions& opened_with, const PoolOptions& asked) {
  return pool.is_open() && asked.kind == pool.kind() &&
         (asked.workers == 0 || asked.workers == pool.size()) &&
         (asked.gpus.empty() || asked.gpus == opened_with.gpus) &&
         (asked.environment.empty() || asked.environment == opened_with.environment);
}

void check_environment(const PoolOptions& options) {
  for (const std::string& entry : options.environment) {
    const size_t sign = entry.find('=');
    if (sign != 0 && sign != std::string::npos && entry.find('\0') == std::string::npos) continue;
    throw Error(ErrorCode::invalid_option, "a worker's environment cannot have \"" + entry + "\"",
                "write NAME=value, as in OMP_NUM_THREADS=1");
  }
  if (options.environment.empty() || options.kind == PoolKind::processes) return;
  throw Error(ErrorCode::invalid_option,
              "a pool of threads cannot have an environment of its own: its workers are threads of this "
              "program and share what it was started with",
              "open a pool of processes, or set the variable before the program starts");
}

std::string size_text(int64_t workers, PoolKind kind) {
  const std::string plural = enum_names(kind)[static_cast<size_t>(kind)];
  return std::to_string(workers) + " " +
         (workers != 1                ? plural
          : kind == PoolKind::threads ? "thread"
                                      : "process");
}

// Under a launcher each worker is one of its ranks.
GetProcess processes_of(const PoolOptions& options, LaunchedRanks* ranks) {
  if (ranks != nullptr) return [ranks](size_t worker) { return ranks->enlist(worker); };
  return [environment = options.environment](size_t) { return start_worker_process(environment); };
}

Pool open(PoolOptions options, LaunchedRanks* ranks) {
  device::keep_freed_memory();
  const std::vector<int64_t> gpus = gpus_of_workers(options);
  options.workers = static_cast<int64_t>(gpus.size());
  const PoolKind kind = *options.kind;
  const auto dispatcher = std::make_shared<Dispatcher>(options.workers);
  const auto start = std::chrono::steady_clock::now();
  const std::string what =
      size_text(options.workers, kind) + (ranks == nullptr ? "" : ", the launcher's ranks,");
  if (!options.quiet)
    std::fprintf(stderr, "starting a pool of %s on %s\n", what.c_str(), host_name().c_str());
  const auto make_crew = [&](CrewListener& listener) {
    return kind == PoolKind::threads
               ? make_thread_crew(gpus, listener)
               : make_process_crew(options, gpus, processes_of(options, ranks), listener);
  };
  dispatcher->open(make_crew, options.start_time);
  const double seconds = seconds_since(start);
  if (!options.quiet)
    std::fprintf(stderr, "connected to %s after %s s\n", what.c_str(), fixed(seconds, 1).c_str());
  return Pool(dispatcher, kind);
}

}  // namespace

Session::~Session() {
  if (pool_) pool_->close();
}

Pool Session::open_pool(const PoolOptions& asked) {
  const std::lock_guard opening(opening_);
  check_numbers(asked);
  PoolOptions options = ranks_ == nullptr ? asked : ranks_->resolve(asked);
  const auto current = current_pool();
  if (!options.kind) options.kind = current ? current->kind() : PoolKind::threads;
  // A launcher's ranks cannot be started again.
  if (current && fits(*current, opened_with_, options) && (ranks_ != nullptr || current->is_whole()))
    return *current;
  if (options.kind == PoolKind::processes && !processes_allowed_) {
    throw Error(ErrorCode::invalid_option,
                "a pool of processes needs a program whose main is run(argc, argv, {tasks}, client)",
                "each worker is this program started again, and run is what makes it a worker; take the "
                "Session that run gives to the client");
  }
  check_environment(options);
  close_pool();
  const Pool pool = open(options, ranks_);
  const std::lock_guard lock(mutex_);
  pool_ = pool;
  opened_with_ = options;
  return pool;
}

void Session::check_may_submit() const {
  if (processes_allowed_) return;
  throw Error(
      ErrorCode::invalid_option,
      "a job of a task needs a program whose main is run(argc, argv, {tasks}, client)",
      "the job is this program started again, and run finds the task; take the Session that run gives to the "
      "client");
}

std::optional<Pool> Session::current_pool() const {
  const std::lock_guard lock(mutex_);
  return pool_ && pool_->is_open() ? pool_ : std::nullopt;
}

Pool Session::pool() {
  if (const auto current = current_pool()) return *current;
  return open_pool();
}

void Session::close_pool() {
  std::optional<Pool> pool;
  {
    const std::lock_guard lock(mutex_);
    pool.swap(pool_);
  }
  // Without the lock: a task that is being ended may ask for the current pool.
  if (pool) pool->close();
}

}  // namespace lockstep::pool
