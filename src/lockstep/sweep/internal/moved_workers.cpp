#include "lockstep/sweep/internal/moved_workers.h"

#include <algorithm>

#include "lockstep/record/status_file.h"

namespace lockstep::sweep {

int64_t workers_for(const WorkerShare& share) {
  return std::max(share.least, share.all / std::max<int64_t>(1, share.trials));
}

double seconds_left(const std::filesystem::path& run_folder, double seconds) {
  const auto status = record::read_status(run_folder);
  if (!status || status->step <= 0 || status->total_steps <= 0) return 0;
  // The pace of a trial that has gone on from a checkpoint is overestimated, so it is moved less often.
  return seconds * static_cast<double>(status->total_steps - status->step) /
         static_cast<double>(status->step);
}

}  // namespace lockstep::sweep
