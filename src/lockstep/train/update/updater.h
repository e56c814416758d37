// The end of a step, where the weights live: the rest of the shard tree, clipping, and the optimizer. One
// object for CPUs, one for a GPU.
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

/// What becomes of a step whose gradient is not finite.
enum class NotFinite { update, skip };

/// Shared by the workers of a process; every worker calls step() in every step.
class Updater {
 public:
  virtual ~Updater() = default;

  /// After a barrier that follows all workers' last shards: `nodes` are all workers' nodes, and the rule's
  /// gradient_scale makes the gradient of their sum. Ends with no barrier.
  virtual void step(Share share, const std::vector<comm::Node>& nodes, int64_t shard_count,
                    device::UpdateRule rule) = 0;

  /// The gradient's L2 norm of the last step, before clipping; NaN when neither clipping nor NotFinite::skip
  /// asks for it.
  double gradient_norm() const { return norm_; }
  /// Whether the last step was skipped. For the worker of rank 0, after its step().
  bool skipped() const { return not_finite_ == NotFinite::skip && !std::isfinite(norm_); }

 protected:
  Updater(SharedWeights& weights, const Optimizer& optimizer, double gradient_clip, NotFinite not_finite);

  bool needs_norm() const { return gradient_clip_ > 0 || not_finite_ == NotFinite::skip; }

  /// From the squares of all blocks, added in a fixed tree.
  double norm_of(const std::vector<double>& block_squares) const;

  /// Of a gradient with this norm: what it is multiplied with to clip it, or nothing where the step is
  /// skipped.
  std::optional<double> scale_for(double norm) const;

  SharedWeights& weights_;
  const Optimizer& optimizer_;
  double norm_;  // written by rank 0

 private:
  double gradient_clip_;
  NotFinite not_finite_;
};

/// Each worker finishes and updates its own blocks of kBlock elements.
std::unique_ptr<Updater> cpu_updater(comm::ThreadGroup& group, SharedWeights& weights,
                                     const Optimizer& optimizer, double gradient_clip,
                                     NotFinite not_finite = NotFinite::update);

/// Rank 0 finishes and updates the whole vector on the weights' device with these kernels, which must outlive
/// the object.
std::unique_ptr<Updater> gpu_updater(const device::GpuKernels& kernels, SharedWeights& weights,
                                     const Optimizer& optimizer, double gradient_clip,
                                     NotFinite not_finite = NotFinite::update);

/// The one for the weights' device.
std::unique_ptr<Updater> make_updater(comm::ThreadGroup& group, SharedWeights& weights,
                                      const Optimizer& optimizer, double gradient_clip,
                                      NotFinite not_finite = NotFinite::update);

}  // namespace lockstep::train
