#include "lockstep/pool/session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/profile.h"
#include "lockstep/cluster/slurm_step.h"
#include "lockstep/device/inventory.h"
#include "lockstep/device/memory.h"
#include "lockstep/jobs/job_folder.h"
#include "lockstep/pool/internal/cluster_line.h"
#include "lockstep/pool/internal/dispatcher.h"
#include "lockstep/pool/internal/launched_ranks.h"
#include "lockstep/pool/internal/pool_trace.h"

namespace lockstep::pool {
namespace {

constexpr int64_t kMostWorkers = 4096;
constexpr const char* kThisMachine = "local";
constexpr std::chrono::milliseconds kLeastSilence{1000};             // four beats
constexpr std::chrono::milliseconds kLeastSilenceOnCluster{10'000};  // a network may lose packets for a while
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
  return (!asked.kind || asked.kind == pool.kind()) &&
         (asked.profile.empty() || asked.profile == opened_with.profile) &&
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
ProcessSource processes_of(const PoolOptions& options, LaunchedRanks* ranks) {
  if (ranks != nullptr) return {.start = [ranks](size_t worker) { return ranks->enlist(worker); }};
  return {.start = [environment = options.environment](size_t) { return start_worker_process(environment); }};
}

// Lines on standard error while a pool opens.
class Opening {
 public:
  Opening(const PoolOptions& options, std::string what) : quiet_(options.quiet), what_(std::move(what)) {}
  void say(const std::string& text) const {
    if (!quiet_) std::fprintf(stderr, "%s\n", text.c_str());
  }
  void begins(const std::string& where) const { say("starting a pool of " + what_ + where); }
  void is_connected() const {
    say("connected to " + what_ + " after " + fixed(seconds_since(start_), 1) + " s");
  }

 private:
  bool quiet_;
  std::string what_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

Pool open(PoolOptions options, LaunchedRanks* ranks) {
  device::keep_freed_memory();
  const std::vector<int64_t> gpus = gpus_of_workers(options);
  options.workers = static_cast<int64_t>(gpus.size());
  const PoolKind kind = *options.kind;
  const auto dispatcher = std::make_shared<Dispatcher>(options.workers);
  const std::string what =
      size_text(options.workers, kind) + (ranks == nullptr ? "" : ", the launcher's ranks,");
  const Opening opening(options, what);
  opening.begins(" on " + host_name());
  const auto make_crew = [&](CrewListener& listener) {
    return kind == PoolKind::threads
               ? make_thread_crew(gpus, listener)
               : make_process_crew(options, gpus, processes_of(options, ranks), listener);
  };
  dispatcher->open(make_crew, options.start_time);
  opening.is_connected();
  return Pool(dispatcher, kind);
}

Pool open_on_line(PoolOptions options, const std::shared_ptr<ClusterLine>& line, ProcessSource source) {
  source.start = [line](size_t worker) { return line->start(worker); };
  source.info = [line](size_t worker) { return line->info(worker); };
  source.meeting = [line](size_t worker) { return line->meeting(worker); };
  std::vector<int64_t> gpus;
  for (size_t worker = 0; worker < line->size(); ++worker) gpus.push_back(line->info(worker).gpu);
  options.silence = std::max(options.silence, kLeastSilenceOnCluster);
  const auto dispatcher = std::make_shared<Dispatcher>(static_cast<int64_t>(line->size()));
  dispatcher->open(
      [&](CrewListener& listener) { return make_process_crew(options, gpus, std::move(source), listener); },
      options.start_time);
  return Pool(dispatcher, PoolKind::processes);
}

Pool open_on_cluster(const PoolOptions& options, const cluster::NamedProfile& named) {
  const cluster::Profile& profile = named.profile;
  const std::string where =
      profile.scheduler == cluster::kSlurmStep ? "this job of Slurm" : "the profile " + quote(named.name);
  const Opening opening(options, size_text(cluster::ranks_of(profile), PoolKind::processes) + " of " + where);
  opening.begins("");
  std::vector<std::string> environment = options.environment;
  for (const std::string& name : profile.secrets) {
    if (const char* value = std::getenv(name.c_str())) environment.push_back(name + "=" + value);
  }
  const auto line =
      std::make_shared<ClusterLine>(PoolRequest{.profile = profile}, environment,
                                    [opening](const std::string& state) { opening.say("  " + state); });
  while (!line->wait_until_open(kLongestWait)) {
  }
  const auto close = [line, opening, limit = profile.idle_limit](bool was_idle) {
    if (was_idle) opening.say("nobody has used the pool for " + std::to_string(limit) + " s, and it ends");
    line->close();
  };
  Pool pool =
      open_on_line(options, line, {.closed = close, .idle_limit = std::chrono::seconds(profile.idle_limit)});
  opening.is_connected();
  return pool;
}

Pool open_on_machines(const PoolOptions& options, const std::shared_ptr<ClusterLine>& line) {
  const Opening opening(options, size_text(static_cast<int64_t>(line->size()), PoolKind::processes) +
                                     ", the launcher's ranks on several machines,");
  opening.begins("");
  Pool pool = open_on_line(options, line, {});
  opening.is_connected();
  return pool;
}

// The workers of the job that this program is; nothing if it is none. A job does not submit another one.
std::optional<int64_t> workers_of_job() {
  const char* folder = std::getenv("LOCKSTEP_JOB");
  if (folder == nullptr) return std::nullopt;
  return jobs::read_spec(jobs::JobPaths{folder}).workers;
}

bool is_for_this_machine(const PoolOptions& options) {
  return options.kind == PoolKind::threads || !options.gpus.empty();
}

// The profile of a cluster on which the pool is to run; nothing for this machine. In an allocation of Slurm
// that is its own machines.
std::optional<cluster::NamedProfile> cluster_of(const PoolOptions& options) {
  cluster::NamedProfile found = cluster::Profiles::of_user().find(options.profile);
  const auto own = cluster::own_allocation();
  const bool is_here = found.profile.scheduler == kThisMachine;
  if (own && (!is_here || (options.profile.empty() && own->nodes > 1))) found.profile = *own;
  if (found.profile.scheduler == kThisMachine) return std::nullopt;
  if (is_for_this_machine(options))
    throw Error(
        ErrorCode::invalid_option,
        "a pool of the profile " + quote(found.name) + " has processes, and GPUs that the scheduler chooses",
        "leave out .kind and .gpus; the profile says how many GPUs a machine has");
  if (options.workers > 0) found.profile.workers = options.workers;
  return found;
}

}  // namespace

Session::Session() = default;

Session::Session(std::vector<std::string> arguments, LaunchedRanks* ranks)
    : arguments_(std::move(arguments)), ranks_(ranks), processes_allowed_(true) {}

Session::~Session() {
  trace_.reset();
  if (pool_) pool_->close();
}

// A pool that others cannot see works as well.
std::unique_ptr<PoolTrace> Session::trace_of(const Pool& pool, const PoolOptions& options) const {
  try {
    return std::make_unique<PoolTrace>(pool, options.profile);
  } catch (const Error& error) {
    if (!options.quiet)
      std::fprintf(stderr, "warning: lockstep pools does not show this pool: %s\n", error.message().c_str());
    return nullptr;
  }
}

Pool Session::open_pool(const PoolOptions& asked) {
  const std::lock_guard opening(opening_);
  check_numbers(asked);
  PoolOptions options = ranks_ == nullptr ? asked : ranks_->resolve(asked);
  const auto job_workers = ranks_ == nullptr ? workers_of_job() : std::nullopt;
  if (job_workers && options.workers == 0) options.workers = *job_workers;
  const auto current = current_pool();
  // A launcher's ranks cannot be started again.
  if (current && fits(*current, opened_with_, options) && (ranks_ != nullptr || current->is_whole()))
    return *current;
  std::optional<cluster::NamedProfile> cluster;
  if (ranks_ == nullptr && !job_workers) {
    const bool is_anywhere = options.profile.empty() && processes_allowed_ && !is_for_this_machine(options);
    if (is_anywhere && current && !options.kind) options.profile = opened_with_.profile;
    if (is_anywhere || !options.profile.empty()) cluster = cluster_of(options);
  }
  options.profile = cluster ? cluster->name : kThisMachine;
  if (cluster) options.kind = PoolKind::processes;
  if (!options.kind) options.kind = current ? current->kind() : PoolKind::threads;
  if (options.kind == PoolKind::processes && !processes_allowed_) {
    throw Error(ErrorCode::invalid_option,
                "a pool of processes needs a program whose main is run(argc, argv, {tasks}, client)",
                "each worker is this program started again, and run is what makes it a worker; take the "
                "Session that run gives to the client");
  }
  check_environment(options);
  close_pool();
  const auto line = ranks_ == nullptr ? nullptr : ranks_->line();
  const Pool pool = cluster           ? open_on_cluster(options, *cluster)
                    : line != nullptr ? open_on_machines(options, line)
                                      : open(options, ranks_);
  auto trace = trace_of(pool, options);
  const std::lock_guard lock(mutex_);
  pool_ = pool;
  trace_ = std::move(trace);
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
    pool = pool_;
  }
  // Without the lock: a task that is being ended may ask for the current pool.
  if (pool) pool->close();
  std::unique_ptr<PoolTrace> trace;
  const std::lock_guard lock(mutex_);
  if (!pool_ || pool_->is_open()) return;  // another thread has opened one
  pool_.reset();
  trace.swap(trace_);
}

}  // namespace lockstep::pool
