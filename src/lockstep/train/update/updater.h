// The end of a step on the weights' device: the rest of the shard tree, clipping, and the optimizer. There is
// an updater for CPUs and one for a GPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/comm/shard_tree.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/device/gpu.h"
#include "lockstep/train/update/optimizer.h"
#include "lockstep/train/step/shared_weights.h"

namespace lockstep::train {

/// What happens in a step whose gradient is not finite.
enum class NotFinite { update, skip };

/// Shared by the workers of a process; every worker calls step() in every step.
class Updater {
 public:
  virtual ~Updater() = default;

  /// After a barrier that follows all workers' last shards. `nodes` are all workers' nodes. Their sum times
  /// the rule's gradient_scale is the gradient. Ends without a barrier.
  virtual void step(Share share, const std::vector<comm::Node>& nodes, int64_t shard_count,
                    device::UpdateRule rule) = 0;

  /// The L2 norm of the last step's gradient, before clipping; NaN if neither clipping nor NotFinite::skip
  /// needs it.
  double gradient_norm() const { return norm_; }
  /// Whether the last step was skipped. For the first worker, after its step().
  bool skipped() const { return not_finite_ == NotFinite::skip && !std::isfinite(norm_); }

 protected:
  Updater(SharedWeights& weights, const Optimizer& optimizer, double gradient_clip, NotFinite not_finite);

  bool needs_norm() const { return gradient_clip_ > 0 || not_finite_ == NotFinite::skip; }

  /// From the squares of all blocks, added in a fixed tree.
  double norm_of(const std::vector<double>& block_squares) const;

  /// The factor that clips a gradient of this norm; none if the step is skipped.
  std::optional<double> scale_for(double norm) const;

  SharedWeights& weights_;
  const Optimizer& optimizer_;
  double norm_;  // written by the first worker

 private:
  double gradient_clip_;
  NotFinite not_finite_;
};

/// Each worker finishes and updates its own blocks of kBlock elements.
std::unique_ptr<Updater> cpu_updater(comm::ThreadGroup& group, SharedWeights& weights,
                                     const Optimizer& optimizer, double gradient_clip,
                                     NotFinite not_finite = NotFinite::update);

/// The first worker finishes and updates the whole vector on the weights' device with these kernels, which
/// must outlive the object.
std::unique_ptr<Updater> gpu_updater(const device::GpuKernels& kernels, SharedWeights& weights,
                                     const Optimizer& optimizer, double gradient_clip,
                                     NotFinite not_finite = NotFinite::update);

/// The updater for the weights' device.
std::unique_ptr<Updater> make_updater(comm::ThreadGroup& group, SharedWeights& weights,
                                      const Optimizer& optimizer, double gradient_clip,
                                      NotFinite not_finite = NotFinite::update);

}  // namespace lockstep::train
