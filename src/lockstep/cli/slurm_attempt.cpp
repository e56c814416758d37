// What a job's batch script becomes; hidden.
#include "lockstep/cluster/slurm_attempt.h"

#include "lockstep/cli/verbs.h"

namespace lockstep::cli {

int run_slurm_attempt(const Call& call, Console& console) {
  return cluster::run_slurm_attempt(
      call.words.front(), [&](const std::string& line) { console.note("lockstep: " + line + "\n"); });
}

}  // namespace lockstep::cli
