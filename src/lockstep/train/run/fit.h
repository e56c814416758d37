// Training from one call: fit(network, folder, options).
#pragma once

#include <filesystem>
#include <stop_token>
#include <string>

#include "lockstep/record/event.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/options/training_request.h"

namespace lockstep::train {

/// The result of a run.
struct Result {
  EndReason reason = EndReason::finished;
  double accuracy = 0;       ///< on the validation data, last step; NaN without any
  double best_accuracy = 0;  ///< on the validation data
  double test_accuracy = 0;  ///< NaN without test data
  double loss = 0;           ///< on the validation data, last step
  int64_t steps = 0;  ///< with TrainingRequest::standing of all calls together, like epochs and seconds
  int64_t epochs = 0;
  double seconds = 0;
  double images_per_second = 0;   ///< over all steps of this attempt except the first
  std::filesystem::path output;   ///< the run folder
  std::filesystem::path weights;  ///< model.safetensors
};

/// Trains, and blocks until the run ends. May be called again afterwards, and by several threads with
/// different run folders. Throws Error; what was saved before remains, and a resume continues from it. In a
/// task of a pool, the run stays on the task's workers, which are its workers unless options.workers says
/// more. It is stopped if the call is cancelled; if the call is asked to stop, it ends as by an observer,
/// with its weights. It shares decoded images with the other tasks of its process. All ranks of a group call
/// it together and have the result.
Result fit(const TrainingRequest& request, const Options& options);

/// The message to the user when a run stops and saves a checkpoint first.
///   can_kill  a second Ctrl-C kills the run
std::string stop_notice(bool can_kill);

/// fit for a dataset with a built-in network (nn::find_network("lenet")) or the caller's own.
///   stop  ends the run with a checkpoint: TrainingRequest::stop
Result fit(const nn::Network& network, const data::Dataset& dataset, const Options& options,
           record::Observer observer = {}, std::stop_token stop = {});

/// The plan that fit would follow, of a cross-validation that of its first run: the data are listed and the
/// network is checked; nothing is trained or written.
Plan plan(const TrainingRequest& request, const Options& options);

}  // namespace lockstep::train
