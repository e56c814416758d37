#include "lockstep/train/exchange.h"

namespace lockstep::train {

Exchange::Exchange(comm::ThreadGroup& group, comm::Communicator& comm, SharedWeights& weights, const Optimizer& optimizer, double gradient_clip)
    : comm_(comm), weights_(weights), updater_(make_updater(group, weights, optimizer, gradient_clip)) {
  for (int64_t thread = 0; thread < group.size(); ++thread) stacks_.emplace_back(weights.element_count(), weights.type(), weights.device());
}

void Exchange::begin(Share thread, int64_t shard_count) { stacks_[static_cast<size_t>(thread.rank)].begin(shard_count); }

void Exchange::take(Share thread, int64_t shard, const std::vector<at::Tensor>& gradients) {
  stacks_[static_cast<size_t>(thread.rank)].take(shard, [&](const at::Tensor& buffer, bool add) { weights_.put(gradients, buffer, add); });
}

void Exchange::meet(int64_t shard_count) {
  std::vector<comm::Node> nodes;
  for (const comm::NodeStack& stack : stacks_) nodes.insert(nodes.end(), stack.nodes().begin(), stack.nodes().end());
  nodes_.clear();  // so that the last sum's memory can be used again
  nodes_ = comm_.exchange_nodes(nodes, shard_count);
}

void Exchange::step(Share thread, int64_t shard_count, const device::UpdateRule& rule) {
  updater_->step(thread, nodes_, shard_count, rule);
}

}  // namespace lockstep::train
