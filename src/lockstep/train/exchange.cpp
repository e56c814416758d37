#include "lockstep/train/exchange.h"

namespace lockstep::train {

Exchange::Exchange(comm::ThreadGroup& group, SharedWeights& weights, const Optimizer& optimizer, double gradient_clip)
    : weights_(weights), updater_(make_updater(group, weights, optimizer, gradient_clip)) {
  for (int64_t rank = 0; rank < group.size(); ++rank) stacks_.emplace_back(weights.element_count(), weights.type(), weights.device());
}

void Exchange::begin(Share share, int64_t shard_count) {
  stacks_[share.rank].begin(part_of(shard_count, share.size, share.rank), shard_count);
}

void Exchange::take(Share share, const std::vector<at::Tensor>& gradients) {
  stacks_[share.rank].take([&](const at::Tensor& buffer, bool add) { weights_.put(gradients, buffer, add); });
}

void Exchange::step(Share share, int64_t shard_count, const device::UpdateRule& rule) {
  std::vector<comm::Node> nodes;
  for (const comm::NodeStack& stack : stacks_) nodes.insert(nodes.end(), stack.nodes().begin(), stack.nodes().end());
  updater_->step(share, nodes, shard_count, rule);
}

}  // namespace lockstep::train
