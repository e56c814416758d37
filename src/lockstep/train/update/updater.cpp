#include "lockstep/train/update/updater.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/Functions.h>

#include "lockstep/device/kernels.h"

namespace lockstep::train {

Updater::Updater(SharedWeights& weights, const Optimizer& optimizer, double gradient_clip,
                 NotFinite not_finite)
    : weights_(weights),
      optimizer_(optimizer),
      norm_(std::numeric_limits<double>::quiet_NaN()),
      gradient_clip_(gradient_clip),
      not_finite_(not_finite) {}

double Updater::norm_of(const std::vector<double>& block_squares) const {
  return std::sqrt(comm::fold(block_squares, 0, weights_.block_count(), std::plus<>()));
}

// Squares of floats and their sum do not overflow a double, so the norm is finite if all elements are.
std::optional<double> Updater::scale_for(double norm) const {
  if (not_finite_ == NotFinite::skip && !std::isfinite(norm)) return std::nullopt;
  return gradient_clip_ > 0 ? std::min(1.0, gradient_clip_ / (norm + 1e-6)) : 1;
}

namespace {

class CpuUpdater : public Updater {
 public:
  CpuUpdater(comm::ThreadGroup& group, SharedWeights& weights, const Optimizer& optimizer,
             double gradient_clip, NotFinite not_finite)
      : Updater(weights, optimizer, gradient_clip, not_finite), group_(group) {
    if (!needs_norm()) return;
    block_squares_.resize(static_cast<size_t>(weights.block_count()));
    clipped_ = at::empty_like(weights.flat());
  }

  void step(Share share, const std::vector<comm::Node>& nodes, int64_t shard_count,
            device::UpdateRule rule) override {
    if (weights_.type() == at::kDouble) {
      step_typed<double>(share, nodes, shard_count, rule);
    } else {
      step_typed<float>(share, nodes, shard_count, rule);
    }
  }

 private:
  template <class T>
  void step_typed(Share share, const std::vector<comm::Node>& nodes, int64_t shard_count,
                  device::UpdateRule rule) {
    std::vector<T> scratch(static_cast<size_t>(comm::scratch_blocks(shard_count) * kBlock));
    const Range own = part_of(weights_.block_count(), share.size, share.rank);
    const auto for_each_block = [&](auto&& work) {
      for (int64_t block = own.begin; block < own.end; ++block) {
        const int64_t begin = block * kBlock;
        work(block, begin, std::min(kBlock, weights_.element_count() - begin));
      }
    };
    if (!needs_norm()) {
      for_each_block([&](int64_t, int64_t begin, int64_t count) {
        optimizer_.update<T>(rule, weights_,
                             comm::finish_block<T>(nodes, shard_count, begin, count, scratch.data()), begin,
                             count);
      });
      return;
    }
    T* sum = clipped_.data_ptr<T>();
    for_each_block([&](int64_t block, int64_t begin, int64_t count) {
      const T* gradient = comm::finish_block<T>(nodes, shard_count, begin, count, scratch.data());
      std::copy(gradient, gradient + count, sum + begin);
      block_squares_[static_cast<size_t>(block)] = device::kernels<T>().sum_of_squares(gradient, count);
    });
    group_.barrier();
    // Every worker folds all blocks: the same numbers in the same order, so nothing needs to be sent.
    const double norm = rule.gradient_scale * norm_of(block_squares_);
    if (share.rank == 0) norm_ = norm;
    const std::optional<double> scale = scale_for(norm);
    if (!scale) return;
    rule.gradient_scale *= *scale;
    for_each_block([&](int64_t, int64_t begin, int64_t count) {
      optimizer_.update<T>(rule, weights_, sum + begin, begin, count);
    });
  }

  comm::ThreadGroup& group_;
  std::vector<double> block_squares_;  // one per block
  at::Tensor clipped_;                 // the summed gradient; only if it is needed twice
};

class GpuUpdater : public Updater {
 public:
  GpuUpdater(const device::GpuKernels& kernels, SharedWeights& weights, const Optimizer& optimizer,
             double gradient_clip, NotFinite not_finite)
      : Updater(weights, optimizer, gradient_clip, not_finite), kernels_(kernels) {}

  void step(Share share, const std::vector<comm::Node>& nodes, int64_t shard_count,
            device::UpdateRule rule) override {
    if (share.rank != 0) return;
    const at::NoGradGuard no_grad;
    const at::Tensor gradient = comm::finish_whole(nodes, shard_count);
    if (needs_norm()) {
      const at::Tensor squares = kernels_.sums_of_squares(gradient, kBlock).cpu();
      norm_ = rule.gradient_scale *
              norm_of({squares.const_data_ptr<double>(), squares.const_data_ptr<double>() + squares.numel()});
      const std::optional<double> scale = scale_for(norm_);
      if (!scale) return;
      rule.gradient_scale *= *scale;
    }
    optimizer_.each_part(rule, 0, weights_.element_count(),
                         [&](const device::UpdateRule& own, int64_t begin, int64_t count) {
                           const auto part = [&](const at::Tensor& flat) {
                             return flat.defined() ? flat.narrow(0, begin, count) : flat;
                           };
                           kernels_.update(own, part(gradient), part(weights_.flat()),
                                           part(optimizer_.value(0)), part(optimizer_.value(1)));
                         });
  }

 private:
  const device::GpuKernels& kernels_;
};

}  // namespace

std::unique_ptr<Updater> cpu_updater(comm::ThreadGroup& group, SharedWeights& weights,
                                     const Optimizer& optimizer, double gradient_clip, NotFinite not_finite) {
  return std::make_unique<CpuUpdater>(group, weights, optimizer, gradient_clip, not_finite);
}

std::unique_ptr<Updater> gpu_updater(const device::GpuKernels& kernels, SharedWeights& weights,
                                     const Optimizer& optimizer, double gradient_clip, NotFinite not_finite) {
  return std::make_unique<GpuUpdater>(kernels, weights, optimizer, gradient_clip, not_finite);
}

std::unique_ptr<Updater> make_updater(comm::ThreadGroup& group, SharedWeights& weights,
                                      const Optimizer& optimizer, double gradient_clip,
                                      NotFinite not_finite) {
  if (weights.device().is_cpu()) return cpu_updater(group, weights, optimizer, gradient_clip, not_finite);
  return gpu_updater(device::gpu_library().kernels(), weights, optimizer, gradient_clip, not_finite);
}

}  // namespace lockstep::train
