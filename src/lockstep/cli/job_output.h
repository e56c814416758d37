// Shows a job that goes on as if it ran here.
#pragma once

#include <optional>
#include <string>

#include "lockstep/cli/console.h"
#include "lockstep/jobs/job_list.h"

namespace lockstep::cli {

/// Why attach_to_run returned: the job is over, or a signal asked to detach.
struct Attached {
  std::optional<jobs::JobView> over{};
  int signal = 0;
};

struct AttachOptions {
  bool plot = false;   ///< draw the curves in the terminal
  std::string notice;  ///< printed when a signal detaches
};

/// Shows the progress of the run that a job trains until the job is over or a signal comes. The job goes on
/// after a signal.
Attached attach_to_run(const jobs::JobPaths& paths, const AttachOptions& options, Console& console);

}  // namespace lockstep::cli
