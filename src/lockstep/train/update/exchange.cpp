#include "lockstep/train/update/exchange.h"

#include <algorithm>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/buckets.h"

namespace lockstep::train {

Exchange::Exchange(comm::ThreadGroup& group, comm::Communicator& comm, SharedWeights& weights,
                   const Optimizer& optimizer, ExchangeOptions options)
    : comm_(comm),
      compressor_(std::move(options.compressor)),
      weights_(weights),
      agree_(std::move(options.agree)),
      in_place_(options.in_place && weights.device().is_cpu() && weights.type() == at::kFloat),
      early_(static_cast<size_t>(group.size())),
      updater_(make_updater(group, weights, optimizer, options.gradient_clip, options.not_finite)) {
  for (int64_t thread = 0; thread < group.size(); ++thread)
    stacks_.emplace_back(weights.element_count(), weights.type(), weights.device());
  if (!options.overlap) return;
  std::vector<int64_t> starts;
  for (const ParameterSlot& slot : weights.slots()) starts.push_back(slot.offset);
  const std::vector<Range> buckets =
      comm::cut_buckets(starts, weights.element_count(),
                        comm::measure_bucket(comm, weights.flat().options(), weights.element_count()));
  if (buckets.size() == 1) return;
  bucket_sizes_.resize(buckets.size());
  for (const int64_t start : starts) {
    const auto bucket = std::find_if(buckets.begin(), buckets.end(),
                                     [&](Range range) { return range.begin <= start && start < range.end; });
    bucket_of_.push_back(static_cast<size_t>(bucket - buckets.begin()));
    ++bucket_sizes_[bucket_of_.back()];
  }
  beside_ = std::make_unique<BucketExchange>(comm, stacks_,
                                             BucketExchange::Options{.buckets = buckets,
                                                                     .workers = group.size(),
                                                                     .agree = agree_,
                                                                     .sum = at::empty_like(weights.flat()),
                                                                     .stream = std::move(options.stream)});
}

void Exchange::begin(Share thread, int64_t own_count, int64_t shard_count) {
  stacks_[static_cast<size_t>(thread.rank)].begin(shard_count);
  early_[static_cast<size_t>(thread.rank)] = {};
  if (beside_ != nullptr) beside_->begin(own_count, shard_count);
}

std::unique_ptr<kernels::GradientTarget> Exchange::begin_in_place(Share thread, Range node) {
  if (!in_place_) return nullptr;
  const comm::NodeStack::Destination place = stacks_[static_cast<size_t>(thread.rank)].begin_node(node);
  return std::make_unique<kernels::GradientTarget>(weights_.flat(), place.buffer, place.add);
}

void Exchange::take(Share thread, Range node, const std::vector<at::Tensor>& gradients,
                    const kernels::GradientTarget* written) {
  comm::NodeStack& stack = stacks_[static_cast<size_t>(thread.rank)];
  Early& early = early_[static_cast<size_t>(thread.rank)];
  if (early.shards == 0) {
    if (written == nullptr) stack.begin_node(node);
    stack.take_part(Range{0, weights_.element_count()}, [&](const at::Tensor& buffer, bool add) {
      weights_.put(gradients, buffer, add, written);
    });
    stack.end_node();
    for (size_t bucket = 0; bucket < bucket_sizes_.size(); ++bucket) beside_->ready(bucket, node.count());
    return;
  }
  for (size_t parameter = gradients.size(); parameter-- > 0;) {
    if (!early.taken[parameter]) take_parameter(thread, parameter, gradients[parameter]);
  }
  stack.end_node();
  early.shards = 0;
}

void Exchange::begin_early(Share thread, Range node) {
  stacks_[static_cast<size_t>(thread.rank)].begin_node(node);
  early_[static_cast<size_t>(thread.rank)] = {
      .shards = node.count(), .taken = std::vector<bool>(bucket_of_.size()), .left = bucket_sizes_};
}

void Exchange::take_early(Share thread, size_t parameter, const at::Tensor& gradient) {
  if (early_[static_cast<size_t>(thread.rank)].taken[parameter])
    throw Error(ErrorCode::invalid_option,
                "backward made the gradient of the parameter \"" + weights_.slots()[parameter].name +
                    "\" twice in one pass",
                "--overlap=false takes the gradient at the end of the pass");
  take_parameter(thread, parameter, gradient);
}

void Exchange::take_parameter(Share thread, size_t parameter, const at::Tensor& gradient) {
  Early& early = early_[static_cast<size_t>(thread.rank)];
  stacks_[static_cast<size_t>(thread.rank)].take_part(
      weights_.elements_of(parameter),
      [&](const at::Tensor& part, bool add) { weights_.put(parameter, gradient, part, add); });
  early.taken[parameter] = true;
  const size_t bucket = bucket_of_[parameter];
  if (--early.left[bucket] == 0) beside_->ready(bucket, early.shards);
}

void Exchange::synchronize(int64_t shard_count) {
  nodes_.clear();  // so that the memory of the last sum can be used again
  if (beside_ != nullptr) {
    nodes_ = beside_->finish();
    return;
  }
  if (agree_()) return;
  std::vector<comm::Node> nodes;
  for (const comm::NodeStack& stack : stacks_)
    nodes.insert(nodes.end(), stack.nodes().begin(), stack.nodes().end());
  nodes_ = compressor_->exchange(nodes, shard_count);
}

void Exchange::step(Share thread, int64_t shard_count, const device::UpdateRule& rule) {
  updater_->step(thread, nodes_, shard_count, rule);
}

}  // namespace lockstep::train
