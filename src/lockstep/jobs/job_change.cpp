#include "lockstep/jobs/job_change.h"

#include <cerrno>
#include <chrono>
#include <thread>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/jobs/job_list.h"

namespace lockstep::jobs {
namespace {

// Nothing if another command holds it, or has deleted the job.
std::optional<FileLock> try_take_to_change(const JobPaths& paths) {
  try {
    // A file that is there also on a full disk.
    auto lock = FileLock::try_take_where_possible(paths.spec());
    // A command that deletes the job holds the lock while it moves the folder away.
    return lock && has_spec(paths) ? std::move(lock) : std::nullopt;
  } catch (const Error& error) {
    if (error.errno_value() == ENOENT) return std::nullopt;
    throw;
  }
}

}  // namespace

FileLock take_to_change(const JobPaths& paths) {
  constexpr int kTries = 100;
  constexpr std::chrono::milliseconds kBetweenTries{20};
  for (int i = 0; i < kTries && has_spec(paths); ++i) {
    if (i > 0) std::this_thread::sleep_for(kBetweenTries);
    if (auto lock = try_take_to_change(paths)) return *std::move(lock);
  }
  if (!has_spec(paths))
    throw Error(ErrorCode::not_found, "job " + shown_id(paths) + " was deleted", "lockstep jobs lists jobs");
  throw Error(ErrorCode::io, "another command starts job " + shown_id(paths) + " again or deletes it",
              "lockstep job show " + shown_id(paths) + " shows what became of it");
}

}  // namespace lockstep::jobs
