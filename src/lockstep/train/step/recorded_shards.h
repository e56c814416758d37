// Forward and backward of shards of one size, recorded on a GPU once and then replayed, so that the host
// spends its time for each operator only once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/device/step_graph.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// The reason why shards cannot be recorded in a run; empty if they can.
///   steps  the layers of the network (nn::Instance)
std::string recording_obstacle(const Plan& plan, const std::vector<nn::InstanceLayer>& steps, int64_t ranks);

/// The inputs and results of a recorded pass, always in the same memory.
struct RecordedPass {
  at::Tensor input;                   ///< [b,C,H,W], as the network takes it
  at::Tensor target;                  ///< int64 [b]
  at::Tensor scale;                   ///< the gradient with which backward begins
  at::Tensor unread;                  ///< ShardResult::unread
  std::vector<at::Tensor> gradients;  ///< one per parameter
};

struct RecordingOptions {
  std::function<std::unique_ptr<device::StepGraph>()> make_graph = {};  ///< empty: nothing is recorded
  std::function<void(const std::string&)> warn = {};  ///< called once if a recording fails; may be empty
};

/// The recorded passes of one runner, by the samples of a shard. The first passes of a size are computed
/// without a recording, in the way that is then recorded. It keeps two sizes, and computes no shards of other
/// sizes.
class RecordedShards {
 public:
  /// work: forward and backward in the memory of the pass. device::StepGraph says what it must not do.
  using Work = std::function<void(RecordedPass& pass)>;
  RecordedShards(RecordingOptions options, Work work);

  /// False if nothing is recorded, from the beginning or since a recording failed.
  bool is_on() const { return options_.make_graph != nullptr; }

  /// Does the work on copies of these values. The results are valid until the next call. Null if the shard
  /// must be computed in the usual way; the work has then done nothing.
  ///   input    on the device
  ///   target   int64 [b], on any device
  const RecordedPass* run(const at::Tensor& input, const at::Tensor& target, double scale);

 private:
  struct Size {
    RecordedPass pass;
    std::unique_ptr<device::StepGraph> graph;
    int64_t runs = 0;
  };
  Size* size_for(const at::Tensor& input);

  RecordingOptions options_;
  Work work_;
  std::map<int64_t, Size> sizes_;  // by samples; passes do not move
};

}  // namespace lockstep::train
