// How the shards of a run are computed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/step/network_copy.h"
#include "lockstep/train/step/recorded_shards.h"

namespace lockstep::train {

class ModuleTrials;

/// How a ShardRunner computes.
struct ShardRunnerOptions {
  data::InputFormat format = {};
  Precision precision = Precision::single;
  int64_t accumulate = 1;  ///< pieces of each shard
  int64_t seed = 0;
  Kernels kernels = Kernels::auto_;
  double label_smoothing = 0;
  bool detect_anomaly = false;
  bool padded_left = false;         ///< sequences
  bool module_together = false;     ///< of NetworkPlan
  FrozenLayers frozen = {};         ///< the `input` of a shard, if it has one, is their output (features())
  RecordingOptions recording = {};  ///< only if choose_recording() says so
  ModuleTrials* trials = nullptr;   ///< that runners share; null: each runner makes its own
};

/// Samples that go through frozen layers at once where their output could be kept (cache/features.h), kept
/// or not.
inline constexpr int64_t kFeaturesGroup = 16;

/// The most samples of several shards that are computed at once. More would fill the memory and leave no
/// shards that another worker could take over.
inline constexpr int64_t kSamplesTogether = 64;
/// On a CPU a worker measures whether fewer are faster, down to so many (pass_size.h). On an EPYC digits_cnn
/// is 1.1 times as fast with 16 as with 64, resnet18 at 28x28 half as fast.
inline constexpr int64_t kLeastTogether = 16;

/// The options by which the shards of a planned run are computed.
ShardRunnerOptions shard_runner_options(const Plan& plan);

}  // namespace lockstep::train
