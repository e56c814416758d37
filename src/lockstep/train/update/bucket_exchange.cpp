#include "lockstep/train/update/bucket_exchange.h"

#include <algorithm>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

Error left_out() { return {ErrorCode::internal, "a worker left out shards of a step that goes on"}; }

}  // namespace

BucketExchange::BucketExchange(comm::Communicator& comm, const std::vector<comm::NodeStack>& stacks,
                               Options options)
    : comm_(comm),
      stacks_(stacks),
      options_(std::move(options)),
      ready_(options_.buckets.size()),
      marks_(options_.buckets.size()) {
  thread_ = std::thread([this] { serve(); });
}

// If a step is under way, the group has been aborted before, so no exchange waits.
BucketExchange::~BucketExchange() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BucketExchange::begin(int64_t own_count, int64_t shard_count) {
  // Of a rank without shards this is the only mark: the device may still read the last step's sum.
  device::SideStream::Mark mark = options_.stream->mark();
  {
    const std::lock_guard lock(mutex_);
    marks_.front().push_back(std::move(mark));
    shard_count_ = shard_count;
    own_ += own_count;
    unbegun_ += own_count;
    if (++begun_workers_ < options_.workers) return;
  }
  changed_.notify_all();  // the last worker may have no shards
}

bool BucketExchange::begin_node(int64_t shards) {
  const std::lock_guard lock(mutex_);
  unbegun_ -= shards;
  const int64_t to_come = own_ * (options_.workers - begun_workers_) / begun_workers_;
  return unbegun_ + to_come <= (options_.workers - 1) * shards;
}

void BucketExchange::ready(size_t bucket, int64_t shards) {
  device::SideStream::Mark mark = options_.stream->mark();
  {
    const std::lock_guard lock(mutex_);
    marks_[bucket].push_back(std::move(mark));
    ready_[bucket] += shards;
    if (!is_ready(bucket)) return;
  }
  changed_.notify_all();
}

std::vector<comm::Node> BucketExchange::finish() {
  options_.stream->wait(options_.stream->mark());  // until then backward goes on, on a GPU
  const auto now = Clock::now();
  std::unique_lock lock(mutex_);
  const bool begun = is_ready(0);
  if (!begun) {
    ended_ = options_.agree();
    if (!ended_) throw left_out();
  }
  all_given_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return done_ || !begun; });
  if (error_) std::rethrow_exception(error_);
  hidden_seconds_ = 0;
  for (const Span& span : spans_)
    hidden_seconds_ +=
        std::max(0.0, std::chrono::duration<double>(std::min(span.end, now) - span.begin).count());
  const bool ended = ended_;
  reset();
  changed_.notify_all();
  return ended ? std::vector<comm::Node>{} : std::vector<comm::Node>{{{0, shard_count_}, options_.sum}};
}

void BucketExchange::reset() {
  std::fill(ready_.begin(), ready_.end(), 0);
  begun_workers_ = own_ = unbegun_ = 0;
  for (auto& marks : marks_) marks.clear();
  spans_.clear();
  all_given_ = done_ = ended_ = false;
}

void BucketExchange::serve() {
  at::set_num_threads(1);
  while (wait_for(0)) {
    try {
      exchange_step();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    std::unique_lock lock(mutex_);
    done_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !done_ || closing_; });
  }
}

// False if there is nothing more to do.
bool BucketExchange::wait_for(size_t bucket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closing_ || is_ready(bucket) || (all_given_ && bucket > 0); });
  if (!closing_ && !is_ready(bucket)) throw left_out();
  return !closing_;
}

void BucketExchange::exchange_step() {
  if (options_.agree()) {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    return;
  }
  for (size_t bucket = 0; bucket < options_.buckets.size() && wait_for(bucket); ++bucket) exchange(bucket);
}

// The host waits for the device before and after, so the streams need no order of their own.
void BucketExchange::exchange(size_t bucket) {
  std::vector<device::SideStream::Mark> marks;
  {
    const std::lock_guard lock(mutex_);
    marks.swap(marks_[bucket]);
  }
  for (const device::SideStream::Mark& mark : marks) options_.stream->wait(mark);
  const auto start = Clock::now();
  options_.stream->run([&] {
    const Range elements = options_.buckets[bucket];
    const auto part_of = [&](const at::Tensor& all) {
      return all.narrow(0, elements.begin, elements.count());
    };
    std::vector<comm::Node> nodes;
    for (const comm::NodeStack& stack : stacks_) {
      for (const comm::Node& node : stack.nodes()) nodes.push_back({node.shards, part_of(node.sum)});
    }
    part_of(options_.sum).copy_(comm::finish_whole(comm_.exchange_nodes(nodes, shard_count_), shard_count_));
  });
  const std::lock_guard lock(mutex_);
  spans_.push_back({start, Clock::now()});
}

}  // namespace lockstep::train
