// Forward and backward of shards of one size, recorded on a GPU once and then replayed, so that the host
// spends its time for each operator only once, and shards that are too small for the GPU fill it together.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/device/step_graph.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// Whether the shards of a run are recorded, and several at the same time; and why or why not: no reason on a
/// CPU.
struct RecordingChoice {
  bool use = false;
  bool side_by_side = false;
  std::string reason = {};
};

/// Throws invalid_option if a recording was asked for and is impossible.
///   layers  of the network (nn::Instance)
RecordingChoice choose_recording(const Plan& plan, Recording asked,
                                 const std::vector<nn::InstanceLayer>& layers, int64_t ranks);

/// The inputs and results of a recorded pass, always in the same memory.
struct RecordedPass {
  int64_t shards = 1;                 ///< of equal size, a node of the tree
  at::Tensor input;                   ///< [b,C,H,W], of all shards, as the network takes it
  at::Tensor target;                  ///< int64 [b]
  at::Tensor scale;                   ///< the gradient with which backward begins
  at::Tensor seeds;                   ///< kernels::SampleSeeds::table(); undefined without random layers
  at::Tensor unread;                  ///< ShardResult::unread, a row for each shard
  std::vector<at::Tensor> gradients;  ///< one per parameter: the node's sum
};

struct RecordingOptions {
  std::function<std::unique_ptr<device::StepGraph>()> make_graph = {};  ///< empty: nothing is recorded
  bool side_by_side = false;                          ///< several equal shards in one recording
  std::function<int64_t()> free_bytes = {};           ///< of the device's memory; empty: enough
  std::function<void(const std::string&)> warn = {};  ///< called once if a recording fails; may be empty
};

/// The recorded passes of one runner, by the number and the samples of their shards. The first passes of a
/// size are computed without a recording, in the way that is then recorded. It keeps four sizes, and computes
/// no shards of other sizes.
class RecordedShards {
 public:
  /// work: forward and backward in the memory of the pass. device::StepGraph says what it must not do.
  using Work = std::function<void(RecordedPass& pass, device::StepGraph& graph)>;
  RecordedShards(RecordingOptions options, Work work);

  /// False if nothing is recorded, from the beginning or since a recording failed.
  bool is_on() const { return options_.make_graph != nullptr; }

  /// The number of shards of `samples` samples that one pass of this network takes; few if the device has
  /// little memory.
  ///   gradient_bytes  of one shard
  int64_t most_side_by_side(const nn::Instance& instance, int64_t samples, size_t gradient_bytes);

  struct Inputs {
    int64_t shards;
    const at::Tensor& input;   ///< on the device
    const at::Tensor& target;  ///< int64 [b], on any device
    double scale;
    const at::Tensor& seeds;  ///< on any device, or undefined
  };
  /// Does the work on copies of these values. The results are valid until the next call. Null if the shards
  /// must be computed in the usual way; the work has then done nothing.
  const RecordedPass* run(const Inputs& inputs);

 private:
  struct Size {
    RecordedPass pass;
    std::unique_ptr<device::StepGraph> graph;
    int64_t runs = 0;
  };
  Size* size_for(const Inputs& inputs);

  RecordingOptions options_;
  Work work_;
  int64_t free_bytes_ = 0;  // of the device when it was first asked for; 0: not yet
  std::map<std::pair<int64_t, int64_t>, Size> sizes_;  // by samples and shards; passes do not move
};

}  // namespace lockstep::train
