// How workers are shared out again when fewer trials go on than there are places.
#pragma once

#include <cstdint>
#include <filesystem>

namespace lockstep::sweep {

struct WorkerShare {
  int64_t all = 1;     ///< workers of all places
  int64_t trials = 1;  ///< that go on, or wait for a place
  int64_t least = 1;   ///< workers of each
};
int64_t workers_for(const WorkerShare& share);

/// How long a run still takes, by what its status says of its pace since it went on; 0: not known.
///   seconds  since it went on
double seconds_left(const std::filesystem::path& run_folder, double seconds);

}  // namespace lockstep::sweep
