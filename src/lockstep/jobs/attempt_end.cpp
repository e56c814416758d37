#include "lockstep/jobs/attempt_end.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"

namespace lockstep::jobs {
namespace {

// Or the user's part of it.
bool is_disk_full(const Error& error) {
  return error.errno_value() == ENOSPC || error.errno_value() == EDQUOT;
}

std::filesystem::path space_mark(const JobPaths& paths, int64_t attempt) {
  return paths.attempt_folder(attempt) / "waits-for-space";
}

}  // namespace

void add_reason(const std::string& reason, AttemptResult& result) {
  result.reason += (result.reason.empty() || reason.empty() ? "" : "; ") + reason;
}

bool is_wanted(const JobPaths& paths) { return !is_marked_cancelled(paths) && has_spec(paths); }

int write_when_there_is_space(const JobPaths& paths, int64_t attempt, const std::vector<int>& signals,
                              const std::function<void()>& write) {
  constexpr timespec kBetweenWrites{.tv_sec = 1, .tv_nsec = 0};
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int signal : signals) ::sigaddset(&ends, signal);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  while (true) {
    try {
      write();
      return 0;
    } catch (const Error& error) {
      if (!is_disk_full(error)) throw;
      if (!is_wanted(paths)) return 0;
      // An empty file can be made on a full disk too.
      const Descriptor mark(::open(space_mark(paths, attempt).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    }
    if (const int signal = ::sigtimedwait(&ends, nullptr, &kBetweenWrites); signal > 0) return signal;
  }
}

bool waits_for_space(const JobPaths& paths, int64_t attempt) {
  return ::access(space_mark(paths, attempt).c_str(), F_OK) == 0;
}

bool try_to_write(const std::function<void()>& write) {
  try {
    write();
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace lockstep::jobs
