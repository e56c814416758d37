#include "lockstep/cli/job_places.h"

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/standings.h"
#include "lockstep/jobs/local_queue.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using jobs::JobPaths;
using jobs::JobView;

}  // namespace

std::vector<std::string> runner_program() {
  std::error_code code;
  const fs::path self = fs::read_symlink("/proc/self/exe", code);
  if (code) throw errno_error(code.value(), "find", "this program");
  // A newer version may have replaced it.
  constexpr std::string_view kGone = " (deleted)";
  std::string program = self.string();
  if (program.ends_with(kGone)) program.resize(program.size() - kGone.size());
  return {program, "queue-runner"};
}

void wake_local_queue(const fs::path& root) {
  if (!fs::is_directory(root)) return;
  const jobs::LocalQueue queue(root);
  queue.tidy();
  queue.wake(runner_program());
}

void look_at_local_queue(const fs::path& root, Console& console) {
  try {
    wake_local_queue(root);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) throw;
    console.note("warning: the queue of this machine starts no jobs: " + printable(error.message()) + "\n");
  }
}

void add_standings(std::vector<JobView>& views, Console& console, const std::stop_token& stop) {
  for (const std::string& failure : cluster::add_standings(views, stop))
    console.note("warning: " + printable(failure) + "\n");
}

JobView job_now(const JobPaths& paths, Console& console) { return JobWatch(console).now(paths); }

JobView JobWatch::now(const JobPaths& paths) {
  std::vector<JobView> views{jobs::view_of(paths)};
  const std::vector<std::string> failures = cluster::add_standings(views, stop_);
  const std::string failure = failures.empty() ? "" : failures.front();
  if (!failure.empty() && failure != said_) console_.note("warning: " + printable(failure) + "\n");
  said_ = failure;
  return std::move(views.front());
}

std::string state_word(const JobView& view) {
  return view.state ? enum_names(*view.state)[static_cast<size_t>(*view.state)] : "unreadable";
}

}  // namespace lockstep::cli
