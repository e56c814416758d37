#include "lockstep/cluster/slurm_step.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/command.h"
#include "lockstep/cluster/internal/end_of_file.h"
#include "lockstep/cluster/internal/slurm.h"
#include "lockstep/launch/process.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int64_t kLongestIdle = 604'800;  // seconds; the allocation ends before
constexpr const char* kStepLog = "slurm.log";
constexpr std::chrono::seconds kStepEnding{10};
constexpr std::chrono::milliseconds kStepLook{20};

int64_t number_in(const char* variable) {
  return parse_number<int64_t>(environment_variable(variable)).value_or(0);
}

std::string id_of_allocation() { return environment_variable("SLURM_JOB_ID"); }

// The step is a child of this process, and ends with it.
class SlurmStep : public Scheduler {
 public:
  ~SlurmStep() override { end(); }

  std::vector<std::string> submit(const Submission& submission) override {
    const fs::path& folder = submission.folders.front();
    const Descriptor log(
        ::open((folder / kStepLog).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!log) throw errno_error(errno, "write", (folder / kStepLog).string());
    const fs::path script = folder / "slurm.sh";
    write_file_atomic(script, batch_script(submission));
    process_ = launch::start_process({.program = "bash",
                                      .words = {"bash", script.string()},
                                      // Beside the steps of whoever else uses the allocation.
                                      .environment = {"SLURM_OVERLAP=1"},
                                      .output = log.get(),
                                      .errors = log.get(),
                                      .lifetime = launch::Lifetime::detached});
    return {id_of_allocation()};
  }

  std::vector<Standing> states(const std::vector<std::string>&) override {
    if (process_ > 0 && launch::try_wait_for_end(process_)) process_ = 0;
    return {{.phase = process_ > 0 ? Phase::running : Phase::ended,
             .nodes = environment_variable("SLURM_JOB_NODELIST")}};
  }

  void cancel(const std::string&) override { end(); }

  std::string log(const fs::path& folder, int64_t most_bytes) override {
    return end_of_file(folder / kStepLog, most_bytes);
  }

 private:
  // srun ends its tasks when it is asked to end.
  void end() {
    if (process_ <= 0) return;
    launch::signal_group(process_, SIGTERM);
    const auto until = Clock::now() + kStepEnding;
    while (Clock::now() < until) {
      if (launch::try_wait_for_end(process_)) {
        process_ = 0;
        return;
      }
      std::this_thread::sleep_for(kStepLook);
    }
    launch::kill_group(process_);
    process_ = 0;
  }

  pid_t process_ = 0;
};

}  // namespace

std::optional<Profile> own_allocation() {
  if (id_of_allocation().empty()) return std::nullopt;
  return Profile{.scheduler = kSlurmStep,
                 .nodes = std::max<int64_t>(1, number_in("SLURM_JOB_NUM_NODES")),
                 .workers = number_in("SLURM_NTASKS"),
                 .cores = number_in("SLURM_CPUS_PER_TASK"),
                 .gpus = number_in("SLURM_GPUS_ON_NODE"),
                 .idle_limit = kLongestIdle};
}

std::vector<std::string> step_words(const Profile& own, const std::string& name) {
  std::vector<std::string> words{"srun",
                                 kExportAll,
                                 "--overlap",
                                 "--kill-on-bad-exit=1",
                                 "--job-name=" + name,
                                 "--ntasks=" + std::to_string(ranks_of(own))};
  if (own.cores > 0) words.push_back("--cpus-per-task=" + std::to_string(own.cores));
  return words;
}

void end_step(const std::string& name) {
  const CommandEnd list =
      run_command({"squeue", "--steps", "--noheader", "--jobs=" + id_of_allocation(), "--format=%i %j"});
  for (const std::string& line : split(list.output, '\n')) {
    if (!line.ends_with(" " + name)) continue;
    const CommandEnd sent = run_command({"scancel", "--signal=TERM", line.substr(0, line.find(' '))});
    if (sent.status != 0)
      throw Error(ErrorCode::cluster, "cannot end the step: " + printable(first_line(sent.errors)));
  }
}

std::unique_ptr<Scheduler> make_slurm_step(const Profile&, const std::vector<std::string>&) {
  return std::make_unique<SlurmStep>();
}

}  // namespace lockstep::cluster
