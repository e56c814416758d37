#include "lockstep/sweep/shown_sweep.h"

#include "lockstep/base/environment.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/jobs/job_list.h"

namespace lockstep::sweep {

std::string shown_sweep(const SweepPaths& paths) {
  return shell_word(environment_variable(jobs::kShownAs) + paths.folder.string());
}

}  // namespace lockstep::sweep
