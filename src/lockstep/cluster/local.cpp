// The scheduler `local`: the queue of this machine. Read this one to write yours.
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cluster/internal/end_of_file.h"
#include "lockstep/cluster/internal/local.h"
#include "lockstep/jobs/local_queue.h"

namespace lockstep::cluster {
namespace {

namespace fs = std::filesystem;
using jobs::JobPaths;
using jobs::JobState;

Phase phase_of(JobState state) {
  switch (state) {
    case JobState::queued:
    case JobState::lost:  // it waits again as soon as somebody looks
      return Phase::queued;
    case JobState::running:
      return Phase::running;
    case JobState::ended:
      return Phase::ended;
    case JobState::failed:
      return Phase::failed;
    case JobState::cancelled:
      return Phase::cancelled;
  }
  return Phase::unknown;
}

// A job's id is its folder.
class Local : public Scheduler {
 public:
  explicit Local(std::vector<std::string> runner) : runner_(std::move(runner)) {}

  std::vector<std::string> submit(const Submission& submission) override {
    const jobs::LocalQueue queue(submission.folders.front().parent_path());
    std::vector<std::string> ids;
    for (const fs::path& folder : submission.folders) {
      queue.add({folder});
      ids.push_back(folder.string());
    }
    queue.wake(runner_);
    return ids;
  }

  std::vector<Standing> states(const std::vector<std::string>& ids) override {
    std::vector<Standing> standings;
    for (const std::string& id : ids) {
      const JobPaths paths{id};
      std::error_code none;
      Standing standing;
      if (fs::exists(paths.spec(), none)) {
        const jobs::StateOfJob found = jobs::state_of(paths, jobs::read_spec(paths));
        standing.phase = phase_of(found.state);
        standing.word = enum_names(found.state)[static_cast<size_t>(found.state)];
        if (const auto result = jobs::read_result(paths)) standing.reason = result->reason;
      }
      standings.push_back(standing);
    }
    return standings;
  }

  void cancel(const std::string& id) override {
    const JobPaths paths{id};
    std::error_code none;
    if (!fs::exists(paths.spec(), none)) return;
    const jobs::LocalQueue queue(paths.folder.parent_path());
    queue.cancel(paths);
    queue.tidy();
    queue.wake(runner_);
  }

  std::string log(const fs::path& folder, int64_t most_bytes) override {
    return end_of_file(jobs::LocalQueue(folder.parent_path()).log_file(), most_bytes);
  }

 private:
  std::vector<std::string> runner_;
};

}  // namespace

std::unique_ptr<Scheduler> make_local(const Profile& profile, const std::vector<std::string>& runner) {
  return std::make_unique<Local>(runner.empty() ? std::vector<std::string>{profile.program, "queue-runner"}
                                                : runner);
}

}  // namespace lockstep::cluster
