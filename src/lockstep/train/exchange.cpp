#include "lockstep/train/exchange.h"

namespace lockstep::train {

Exchange::Exchange(comm::ThreadGroup& group, std::unique_ptr<GradientWay> way, SharedWeights& weights, const Optimizer& optimizer, double gradient_clip)
    : way_(std::move(way)), weights_(weights), updater_(make_updater(group, weights, optimizer, gradient_clip)) {
  for (int64_t thread = 0; thread < group.size(); ++thread) stacks_.emplace_back(weights.element_count(), weights.type(), weights.device());
}

void Exchange::begin(WorkerPlace place, int64_t shard_count) {
  stacks_[place.thread.rank].begin(part_of(shard_count, place.worker.size, place.worker.rank), shard_count);
}

void Exchange::take(WorkerPlace place, const std::vector<at::Tensor>& gradients) {
  stacks_[place.thread.rank].take([&](const at::Tensor& buffer, bool add) { weights_.put(gradients, buffer, add); });
}

void Exchange::meet(int64_t shard_count) {
  std::vector<comm::Node> nodes;
  for (const comm::NodeStack& stack : stacks_) nodes.insert(nodes.end(), stack.nodes().begin(), stack.nodes().end());
  nodes_.clear();  // so that the last sum's memory can be used again
  nodes_ = way_->exchange(nodes, shard_count);
}

void Exchange::step(WorkerPlace place, int64_t shard_count, const device::UpdateRule& rule) {
  updater_->step(place.thread, nodes_, shard_count, rule);
}

}  // namespace lockstep::train
