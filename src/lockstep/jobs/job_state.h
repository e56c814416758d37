// What a job is doing, found from its folder alone.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "lockstep/jobs/job_folder.h"

namespace lockstep::jobs {

enum class JobState {
  queued,   ///< waits for workers, memory or other jobs; also between two attempts
  running,  ///< an attempt goes on
  ended,    ///< its command ended with status 0
  failed,
  cancelled,
  lost  ///< it is gone without a result; the next command on the queue of this machine settles it
};
constexpr std::array<const char*, 6> enum_names(JobState) {
  return {"queued", "running", "ended", "failed", "cancelled", "lost"};
}
constexpr bool is_over(JobState state) {
  return state == JobState::ended || state == JobState::failed || state == JobState::cancelled;
}

/// Whether it is in the queue of another machine than this one. A job without a host is in the queue of
/// whatever machine finds it.
bool is_elsewhere(const JobSpec& spec);

struct StateOfJob {
  JobState state = JobState::queued;
  int64_t attempt = 0;                      ///< the newest; 0: none began
  std::optional<AttemptResult> result{};    ///< the one that counts, if the job is over
  std::optional<AttemptResult> previous{};  ///< of a job that waits again: how its newest attempt ended
};

/// A job of another scheduler than the local queue is `running` from the beginning of an attempt to its
/// result: only the scheduler knows more.
StateOfJob state_of(const JobPaths& paths, const JobSpec& spec);

}  // namespace lockstep::jobs
