// Forward and backward of shards of one size, recorded on a GPU once and then replayed: what the host spends
// on each operator is spent once.
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

/// Why shards cannot be recorded in a run; empty: they can.
///   steps  of the network (nn::Instance)
std::string recording_obstacle(const Plan& plan, const std::vector<nn::InstanceLayer>& steps, int64_t ranks);

/// What a recorded pass reads and leaves: always in the same memory.
struct RecordedPass {
  at::Tensor input;                   ///< [b,C,H,W], as the network takes it
  at::Tensor target;                  ///< int64 [b]
  at::Tensor scale;                   ///< what backward begins with
  at::Tensor unread;                  ///< ShardResult::unread
  std::vector<at::Tensor> gradients;  ///< one per parameter
};

struct RecordingOptions {
  std::function<std::unique_ptr<device::StepGraph>()> make_graph = {};  ///< empty: nothing is recorded
  std::function<void(const std::string&)> warn = {};  ///< told once, where a recording fails; may be empty
};

/// The passes of one runner, by the samples of a shard: the first few of a size are done as ever, on the way
/// that is then recorded. Memory for two sizes; shards of another size, like those of a last smaller
/// mini-batch, are none of its affair.
class RecordedShards {
 public:
  /// work: forward and backward in the memory of the pass. See device::StepGraph for what it must not do.
  using Work = std::function<void(RecordedPass& pass)>;
  RecordedShards(RecordingOptions options, Work work);

  /// False where nothing is recorded, from the beginning or since a recording failed.
  bool is_on() const { return options_.make_graph != nullptr; }

  /// Does the work on these values, which are copied, and returns where the results are until the next call.
  /// Null: not here, but in the usual way; the work then has done nothing.
  ///   input    on the device
  ///   target   int64 [b], where it may be
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
