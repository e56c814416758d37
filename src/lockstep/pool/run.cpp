#include "lockstep/pool/run.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "lockstep/launch/launcher.h"
#include "lockstep/device/failure.h"
#include "lockstep/device/memory.h"
#include "lockstep/jobs/attempt_error.h"
#include "lockstep/pool/internal/job_program.h"
#include "lockstep/pool/internal/launched_ranks.h"
#include "lockstep/pool/internal/pool_head.h"
#include "lockstep/pool/internal/pool_member.h"
#include "lockstep/pool/internal/process.h"
#include "lockstep/pool/internal/process_worker.h"

namespace lockstep::pool {
namespace {

// 0 for a text that is no number, which is never the id of a client.
pid_t process_in(const char* text) {
  pid_t process = 0;
  std::from_chars(text, text + std::strlen(text), process);
  return process;
}

}  // namespace

int run_client(std::vector<std::string> arguments, LaunchedRanks* ranks,
               const std::function<int(Session&)>& client) {
  Session session(std::move(arguments), ranks);
  return client(session);
}

int run_program(int argc, char** argv, const TaskTable& tasks, const std::function<int(Session&)>& client) {
  device::keep_freed_memory();
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "lockstep";
  const comm::Waiting waiting{
      .tell = [&](const std::string& what) { std::fprintf(stderr, "%s: %s\n", name.c_str(), what.c_str()); }};
  std::setvbuf(stdout, nullptr, _IOLBF,
               BUFSIZ);  // a reader of a pipe or a launcher sees each line at once
  std::optional<launch::Launch> launch;
  try {
    if (argc == 3 && std::strcmp(argv[1], kWorkerArgument) == 0) {
      work_for(process_in(argv[2]), tasks);
      return 0;
    }
    if (argc == 3 && std::strcmp(argv[1], kMemberArgument) == 0) return run_pool_member(argv[2]);
    if (argc == 2 && std::strcmp(argv[1], kHeadArgument) == 0) return run_pool_head();
    if (argc == 3 && std::strcmp(argv[1], kRunnerArgument) == 0) {
      run_job_runner(argv[2]);
      return 0;
    }
    check_tasks(tasks);
    check_job_build({argv + (argc > 0 ? 1 : 0), argv + argc});
    launch = launch::read_launch([](const char* name) { return std::getenv(name); });
    if (launch && launch->rank > 0) {
      work_under(*launch, tasks, waiting);
      return 0;
    }
    const auto ranks = launch ? std::make_unique<LaunchedRanks>(*launch, waiting) : nullptr;
    const bool is_job = argc > 1 && std::strcmp(argv[1], kJobArgument) == 0;
    const auto run_task = [&](Session& session) { return run_job_task(session, tasks); };
    return run_client({argv + (argc > 0 ? 1 : 0), argv + argc}, ranks.get(),
                      is_job ? std::function<int(Session&)>(run_task) : client);
  } catch (...) {
    const Error error = device::error_of(std::current_exception());
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    const bool is_lost = launch && error.code() == ErrorCode::cancelled;
    if (!is_lost) jobs::leave_error(error);
    return is_lost ? launch->lost_status : exit_status(error.code());
  }
}

}  // namespace lockstep::pool
