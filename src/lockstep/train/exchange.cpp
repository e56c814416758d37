#include "lockstep/train/exchange.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/Functions.h>

#include "lockstep/device/kernels.h"

namespace lockstep::train {

Exchange::Exchange(comm::ThreadGroup& group, SharedWeights& weights, const Optimizer& optimizer, double gradient_clip)
    : group_(group), weights_(weights), optimizer_(optimizer), gradient_clip_(gradient_clip), norm_(std::numeric_limits<double>::quiet_NaN()) {
  for (int64_t rank = 0; rank < group.size(); ++rank) stacks_.emplace_back(weights.element_count(), weights.type(), weights.device());
  if (gradient_clip_ > 0) {
    block_squares_.resize(static_cast<size_t>(weights.block_count()));
    clipped_ = at::empty_like(weights.flat());
  }
}

void Exchange::begin(Share share, int64_t shard_count) {
  stacks_[share.rank].begin(part_of(shard_count, share.size, share.rank), shard_count);
}

void Exchange::take(Share share, const std::vector<at::Tensor>& gradients) {
  stacks_[share.rank].take([&](const at::Tensor& buffer, bool add) {
    const auto parts = weights_.views(buffer);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!gradients[i].defined()) {
        if (!add) parts[i].zero_();
      } else if (add) {
        parts[i].add_(gradients[i]);
      } else {
        parts[i].copy_(gradients[i]);
      }
    }
  });
}

void Exchange::step(Share share, int64_t shard_count, const device::UpdateRule& rule) {
  if (weights_.type() == at::kDouble) {
    step_typed<double>(share, shard_count, rule);
  } else {
    step_typed<float>(share, shard_count, rule);
  }
}

template <class T>
void Exchange::step_typed(Share share, int64_t shard_count, device::UpdateRule rule) {
  std::vector<comm::Node> nodes;
  for (const comm::NodeStack& stack : stacks_) nodes.insert(nodes.end(), stack.nodes().begin(), stack.nodes().end());
  std::vector<T> scratch(static_cast<size_t>(comm::scratch_blocks(shard_count) * kBlock));
  const Range own = part_of(weights_.block_count(), share.size, share.rank);
  const auto for_each_block = [&](auto&& work) {
    for (int64_t block = own.begin; block < own.end; ++block) {
      const int64_t begin = block * kBlock;
      work(block, begin, std::min(kBlock, weights_.element_count() - begin));
    }
  };
  if (gradient_clip_ <= 0) {
    for_each_block([&](int64_t, int64_t begin, int64_t count) {
      optimizer_.update<T>(rule, weights_, comm::finish_block<T>(nodes, shard_count, begin, count, scratch.data()), begin, count);
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
  // Every worker folds all blocks itself: the same numbers in the same order, without a message.
  const double norm = std::sqrt(comm::fold(block_squares_, 0, weights_.block_count(), std::plus<>()));
  if (share.rank == 0) norm_ = norm;
  rule.gradient_scale = std::min(1.0, gradient_clip_ / (norm + 1e-6));
  for_each_block([&](int64_t, int64_t begin, int64_t count) { optimizer_.update<T>(rule, weights_, sum + begin, begin, count); });
}

}  // namespace lockstep::train
