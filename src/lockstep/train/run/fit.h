// Training from one call: fit(network, folder, options).
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/io/event.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/options/training_request.h"

namespace lockstep::train {

/// What came of a run.
struct Result {
  EndReason reason = EndReason::finished;
  double accuracy = 0;       ///< on the validation data, last step; NaN without any
  double best_accuracy = 0;  ///< on the validation data
  double test_accuracy = 0;  ///< NaN without test data
  double loss = 0;           ///< on the validation data, last step
  int64_t steps = 0;         ///< with TrainingRequest::standing of all calls together, as epochs and seconds
  int64_t epochs = 0;
  double seconds = 0;
  double images_per_second = 0;   ///< over all steps but the first of this attempt
  std::filesystem::path output;   ///< the run folder
  std::filesystem::path weights;  ///< model.safetensors
};

/// Trains. Blocks until the run ends; safe to call again afterwards, and from several threads with different
/// run folders. Throws Error; what was saved before stays, and resume goes on from there. In a task of a pool
/// it stays on the task's workers: those are its workers unless options.workers says more, it is stopped when
/// the call is cancelled, ends as by an observer, with its weights, when the call is asked to stop, and
/// shares decoded images with the other tasks of its process. The ranks of a group call it together and all
/// have the result.
Result fit(const TrainingRequest& request, const Options& options);

/// What a stop that saves a checkpoint first is answered with, for people.
///   can_kill  a second Ctrl-C kills
std::string stop_notice(bool can_kill);

/// fit on a folder of images with a network of one's own or a built-in one (nn::find_network("lenet")).
Result fit(const nn::Network& network, const data::Dataset& dataset, const Options& options,
           io::Observer observer = {});

/// What fit would do, without doing it: data are listed, the network is checked, nothing is trained or
/// written.
Plan plan(const TrainingRequest& request, const Options& options);

}  // namespace lockstep::train
