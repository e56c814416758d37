// What a training needs, resolved.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>

#include "lockstep/base/json.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/data/image_set.h"
#include "lockstep/data/mini_batch_stream.h"
#include "lockstep/record/event.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/cache/features.h"
#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/loop/reporter.h"
#include "lockstep/train/loop/wishes.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// The steps of a run whose speed counts: all but the first.
struct TimedSteps {
  int64_t steps = 0;  ///< with the first
  double seconds = 0;
  int64_t images = 0;
};

/// fit.cpp makes it for a run.
struct TrainingSetup {
  const Plan& plan;
  const nn::Network& network;
  std::shared_ptr<const data::ImageSet> train;
  std::shared_ptr<data::MiniBatchStream> stream = {};     ///< replaces `train` if plan.data.streamed
  std::shared_ptr<const data::ImageSet> validation = {};  ///< may be null
  std::shared_ptr<const data::ImageSet> test = {};        ///< may be null
  FeatureStorage train_features = {};                     ///< used if plan.network.keep_features
  FeatureStorage validation_features = {};
  std::shared_ptr<KeptFeatures> kept_features = {};  ///< those of a training of the same data that this one
                                                     ///< follows, or an empty object for one that follows
  std::function<void(record::Event)> say = {};       ///< to the log and the views; may be empty
  record::Observer observer = {};                    ///< may be empty
  CheckpointWriter* writer = nullptr;                ///< null: nothing is saved
  Json fingerprint = {};                             ///< for checkpoints
  RunState state = {};                               ///< where the run begins, equal on all ranks
  bool more_passes = false;                          ///< Standing::more_passes
  bool moves_shards = false;                         ///< between ranks, by their speeds (RankBalance)
  bool timing = false;                               ///< steps are logged with the time of each worker
  TimedSteps timed = {};                             ///< before the shards were dealt again
  std::stop_token stop = {};
  std::shared_ptr<Wishes> wishes = {};  ///< rank 0's; may be null
  std::stop_token enough = {};          ///< TrainingRequest::enough; rank 0's
  double began = now_seconds();         ///< when the run was requested
  comm::Communicator& comm;  ///< of the ranks that train together; say, observer and writer are rank 0's
};

}  // namespace lockstep::train
