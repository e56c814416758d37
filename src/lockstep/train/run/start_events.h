// The first events of a run: its plan, and messages about how it begins.
#pragma once

#include <optional>
#include <string>

#include "lockstep/train/planning/prepare.h"
#include "lockstep/train/run/run_log.h"
#include "lockstep/train/run/run_start.h"

namespace lockstep::train {

/// Rank 0's.
///   folder   of the training data, for the event `plan`
///   ranks    number of ranks
///   warnings  of compare_fingerprints and add_earlier; texts may be empty
struct StartReport {
  const RunStart& start;
  const Prepared& prepared;
  std::string folder;
  std::vector<std::string> warnings;
  int64_t ranks = 1;
  std::vector<std::string> words{};  ///< the run's command line; empty: the process's
};

/// The event of an attempt that begins here.
///   data  path or address of the training data; what may be secret in an address is left out
record::Environment environment_here(const std::string& data, int64_t ranks, int64_t workers);

void say_start(RunLog& log, const StartReport& report);

}  // namespace lockstep::train
