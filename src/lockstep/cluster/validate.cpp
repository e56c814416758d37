#include "lockstep/cluster/validate.h"

#include <algorithm>
#include <set>
#include <thread>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/command.h"
#include "lockstep/cluster/internal/slurm.h"
#include "lockstep/cluster/nodes.h"
#include "lockstep/cluster/scheduler.h"
#include "lockstep/jobs/job_folder.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTrialInterval{500};
constexpr std::chrono::seconds kRunLimit{300};
constexpr int64_t kMostDiary = 1 << 20;
constexpr int64_t kShownSize = 4 << 20;  // of gradients, in bytes

// Each rank leaves a file where it sees the folder, then all measure their sums.
constexpr const char* kProbe =
    "echo \"$(hostname) ${CUDA_VISIBLE_DEVICES:-}\" > \"$0/rank-${SLURM_PROCID:-${RANK:-0}}\" && exec \"$1\" "
    "bench-ranks --json";

struct Failure {
  std::string reason;
  std::string hint;
};

class Validation {
 public:
  Validation(const Profile& profile, const Trial& trial) : profile_(profile), trial_(trial) {}
  Validation(const Validation&) = delete;
  Validation& operator=(const Validation&) = delete;
  ~Validation() {
    try {
      if (!is_over_ && !id_.empty()) scheduler_->cancel(id_);
    } catch (const Error&) {  // a failure to reach the scheduler was told by a stage
    }
    std::error_code none;
    if (passed_) fs::remove_all(trial_.folder, none);
  }

  bool run() {
    const bool is_slurm = profile_.scheduler == "slurm";
    passed_ = stage("commands", [&] { return look_at_machines(); }) &&
              (is_slurm ? run_on_scheduler() : stage("ranks meet", [&] { return run_here(); }));
    return passed_;
  }

 private:
  bool run_on_scheduler() {
    return stage("submit", [&] { return submit_probe(); }) &&
           stage("start", [&] { return wait_for_start(); }) &&
           stage("ranks meet", [&] { return wait_for_end(); }) &&
           stage("shared disk", [&] { return find_ranks(); }) &&
           stage("all-reduce", [&] { return read_rates(diary()); }) &&
           stage("cancel", [&] { return cancel_one(); });
  }

  bool stage(const std::string& name, const std::function<std::string()>& work) {
    if (trial_.begins) trial_.begins(name);
    Stage found{.name = name};
    const auto start = Clock::now();
    try {
      found.detail = work();
      found.passed = true;
    } catch (const Failure& failure) {
      found.detail = failure.reason;
      found.hint = failure.hint;
    } catch (const Error& error) {
      found.detail = error.message();
      found.hint = error.hint();
    }
    found.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (trial_.ended) trial_.ended(found);
    return found.passed;
  }

  std::string look_at_machines() {
    if (profile_.fast_multinode == "on" && profile_.gpus == 0)
      throw Failure{"fast-multinode is on, and the profile asks for no GPU: NCCL sends between GPUs",
                    "set \"gpus\" in the profile, or fast-multinode to auto or off"};
    const std::vector<Node> nodes = nodes_of(profile_);
    const auto is_up = [](const Node& node) {
      return node.state.find("down") == std::string::npos && node.state.find("drain") == std::string::npos &&
             node.state.find('*') == std::string::npos;
    };
    if (nodes.empty())
      throw Failure{"there is no partition " + quote(profile_.partition), "sinfo lists the partitions"};
    const int64_t up = std::count_if(nodes.begin(), nodes.end(), is_up);
    const auto out = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const Node& node) { return !is_up(node) && !node.reason.empty(); });
    if (up < profile_.nodes)
      throw Failure{"the profile wants " + counted(profile_.nodes, "node") + ", and " + with_commas(up) +
                        " of " + std::to_string(nodes.size()) + " are up" +
                        (out == nodes.end() ? "" : "; " + out->host + ": " + printable(out->reason)),
                    "lockstep cluster show lists them; ask for fewer, or wait until they are back"};
    return with_commas(up) + " of " + counted(std::ssize(nodes), "node") +
           (nodes.size() == 1 ? " is up" : " are up");
  }

  std::string submit_probe() {
    make_folders(trial_.folder);
    scheduler_ = make_scheduler(profile_);
    const jobs::JobPaths paths =
        make({"/bin/sh", "-c", kProbe, trial_.folder.string(), profile_.program}, "lockstep-validate");
    return "job " + id_ + " in " + paths.folder.string();
  }

  jobs::JobPaths make(const std::vector<std::string>& command, const std::string& name) {
    const jobs::JobSpec spec{.name = name, .command = command, .scheduler = profile_.scheduler};
    const jobs::JobPaths paths = jobs::make_job(
        trial_.folder / "jobs", spec,
        [&](const jobs::JobPaths& hidden) { write_file_atomic(hidden.profile(), to_json(profile_).dump()); });
    paths_ = paths;
    submission_ = {.name = name + "." + random_hex(4),
                   .command = {profile_.program, profile_.scheduler + "-attempt"},
                   .folders = {paths.folder},
                   .resources = profile_,
                   .may_requeue = false};
    is_over_ = false;
    id_ = scheduler_->submit(submission_).front();
    return paths;
  }

  Standing look() { return scheduler_->states({id_}).front(); }

  std::string wait_for_start() {
    const auto end = Clock::now() + trial_.patience;
    Standing standing;
    while (Clock::now() < end) {
      standing = look();
      if (standing.phase != Phase::queued)
        return standing.nodes.empty() ? standing.word : "on " + standing.nodes;
      std::this_thread::sleep_for(kTrialInterval);
    }
    throw Failure{
        "it waited for " + std::to_string(trial_.patience.count()) + " s: " + standing.word + " (" +
            standing.reason + ")",
        "squeue -j says why; ask for less, for another partition, or try when the cluster is less busy"};
  }

  std::string wait_for_end() {
    const auto end = Clock::now() + kRunLimit;
    Phase phase = Phase::running;
    while (phase == Phase::running || phase == Phase::queued) {
      if (Clock::now() > end)
        throw Failure{
            "the ranks did not end within " + std::to_string(kRunLimit.count()) + " s: " + last_words(),
            "nodes must reach each other over \"network-interface\": ip address lists the interfaces"};
      std::this_thread::sleep_for(kTrialInterval);
      phase = look().phase;
    }
    is_over_ = true;
    std::error_code none;
    if (!fs::exists(paths_.attempt(), none))
      throw Failure{
          "the job ended and left nothing in " + paths_.folder.string() + ": " +
              printable(scheduler_->log(paths_.folder, 400)),
          "set \"program\" to the path of lockstep on the nodes, and \"job-folder\" to a folder on a disk "
          "that they share"};
    const auto result = jobs::read_attempt(paths_, 1);
    if (!result || result->end != jobs::AttemptEnd::ended)
      throw Failure{(result ? result->reason : "no result") + ": " + last_words(),
                    "its words are in " + paths_.diary(1).string()};
    return "on " + result->nodes;
  }

  std::string diary() const {
    std::error_code none;
    return fs::exists(paths_.diary(1), none) ? read_file(paths_.diary(1), kMostDiary) : "";
  }

  std::string last_words() const {
    std::vector<std::string> lines = split(diary(), '\n');
    while (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines.empty() ? "nothing was written" : printable(lines.back());
  }

  std::string find_ranks() const {
    std::set<std::string> hosts;
    int64_t ranks = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(trial_.folder)) {
      if (!entry.path().filename().string().starts_with("rank-")) continue;
      ++ranks;
      hosts.insert(split(first_line_of(entry.path()), ' ').front());
    }
    const int64_t wanted = ranks_of(profile_);
    if (ranks != wanted)
      throw Failure{
          "of " + counted(wanted, "rank") + ", " + with_commas(ranks) + " wrote to " + trial_.folder.string(),
          "set \"job-folder\" to a folder on a disk that this machine and all nodes share"};
    return counted(ranks, "rank") + " on " + counted(std::ssize(hosts), "host") +
           (ranks == 1 ? " writes to " : " write to ") + trial_.folder.string();
  }

  // The line of JSON that rank 0 printed.
  static std::string read_rates(const std::string& text) {
    const size_t start = text.find("[{\"bytes\"");
    if (start == std::string::npos)
      throw Failure{"the ranks printed no measurement",
                    "run lockstep --version on the nodes: is it this version?"};
    for (const Json& size : parse_json(text.substr(start, text.find('\n', start) - start))) {
      if (size.at("bytes").get<int64_t>() != kShownSize) continue;
      const double seconds = size.at("all_reduce_seconds").get<double>();
      const std::string transport = size.value("transport", "");
      return as_bytes(kShownSize) + " in " + fixed(seconds * 1e3, 1) + " ms, " +
             as_bytes(static_cast<int64_t>(static_cast<double>(kShownSize) / seconds)) + "/s, over " +
             printable(transport);
    }
    throw Failure{"the measurement lacks " + as_bytes(kShownSize), ""};
  }

  std::string cancel_one() {
    make({"/bin/sleep", "600"}, "lockstep-validate-cancel");
    scheduler_->cancel(id_);
    const auto end = Clock::now() + std::chrono::seconds(90);
    while (Clock::now() < end) {
      const Phase phase = look().phase;
      if (phase != Phase::queued && phase != Phase::running) {
        is_over_ = true;
        return "job " + id_ + " was cancelled";
      }
      std::this_thread::sleep_for(kTrialInterval);
    }
    throw Failure{"job " + id_ + " goes on after it was cancelled", "scancel " + id_};
  }

  std::string run_here() {
    const CommandEnd end = run_command({profile_.program, "run", "-n", std::to_string(ranks_of(profile_)),
                                        profile_.program, "bench-ranks", "--json"},
                                       {.limit = kRunLimit});
    if (end.status != 0)
      throw Failure{printable(first_line(end.errors)), "lockstep doctor shows what this machine has"};
    return read_rates(end.output);
  }

  const Profile& profile_;
  const Trial& trial_;
  std::unique_ptr<Scheduler> scheduler_;
  jobs::JobPaths paths_;
  Submission submission_;
  std::string id_;
  bool is_over_ = true;
  bool passed_ = false;
};

}  // namespace

bool validate(const Profile& profile, const Trial& trial) { return Validation(profile, trial).run(); }

}  // namespace lockstep::cluster
