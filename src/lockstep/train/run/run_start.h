// Where a run begins: its folder, its options, and what an earlier attempt or an earlier fit left.
#pragma once

#include <optional>

#include "lockstep/comm/communicator.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/training_request.h"
#include "lockstep/train/run/run_files.h"

namespace lockstep::train {

struct RunStart {
  std::optional<record::RunFolder> folder = {};  ///< rank 0's, with its lock
  Options options;      ///< at a resume the run's, with those that may change; with the folder
  RunState state = {};  ///< equal on all ranks
  std::optional<Manifest> manifest = {};  ///< rank 0's, of an earlier attempt; none: the plan is made anew
  std::optional<Checkpoint> checkpoint = {};  ///< rank 0's, the last one

  record::RunPaths paths() const { return {options.output}; }
};

/// NAME of a run folder NAME-001 that the user did not name.
std::string run_name(const TrainingRequest& request);

/// The folder of a new run: options.output, or a numbered one. Throws invalid_option before it makes a folder
/// if the run would lie among the images that it trains on, and what RunFolder::create throws.
record::RunFolder create_run_folder(const TrainingRequest& request, const Options& options);

/// Rank 0 opens the run folder, or creates it, and reads what a resume needs; all ranks get its options and
/// state. Collective. Throws invalid_option for options that cannot change at a resume, not_found for a run
/// that cannot be resumed, and what opening a folder throws.
RunStart start_run(const TrainingRequest& request, const Options& asked, comm::Communicator& comm);

}  // namespace lockstep::train
