#include "lockstep/jobs/job_change.h"

#include <cerrno>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/jobs/job_list.h"

namespace lockstep::jobs {
namespace {

bool has_spec(const JobPaths& paths) { return ::access(paths.spec().c_str(), F_OK) == 0; }

}  // namespace

std::optional<FileLock> try_take_to_change(const JobPaths& paths) {
  try {
    auto lock = FileLock::try_take(paths.spec());  // a file that is there also on a full disk
    // A command that deletes the job holds the lock while it moves the folder away.
    return lock && has_spec(paths) ? std::move(lock) : std::nullopt;
  } catch (const Error& error) {
    if (error.errno_value() == ENOENT) return std::nullopt;
    throw;
  }
}

FileLock take_to_change(const JobPaths& paths) {
  if (auto lock = try_take_to_change(paths)) return *std::move(lock);
  if (!has_spec(paths))
    throw Error(ErrorCode::not_found, "job " + shown_id(paths) + " was deleted", "lockstep jobs lists jobs");
  throw Error(ErrorCode::io, "another command starts job " + shown_id(paths) + " again or deletes it",
              "lockstep job show " + shown_id(paths) + " shows what became of it");
}

}  // namespace lockstep::jobs
