#include "lockstep/train/step/group_meeting.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "lockstep/base/seconds.h"

namespace lockstep::train {
namespace {

// As long as a barrier of threads (comm/thread_group.h).
constexpr auto kSpin = std::chrono::microseconds(20);

Error given_up() { return {ErrorCode::cancelled, "another part of this group of batch norms was given up"}; }

Error different_layers() {
  return {
      ErrorCode::invalid_option,
      "the shards of a group of batch norms must pass the same batch norms in the same order, and these do "
      "not",
      "--batch-norm-group 1 normalises over each shard alone"};
}

int64_t count_of(const std::vector<NodeSums>& nodes) {
  int64_t count = 0;
  for (const NodeSums& node : nodes) count += node.shards.count();
  return count;
}

}  // namespace

kernels::NormSums folded(const std::vector<NodeSums>& nodes, Range shards, kernels::NormExchange::Add add) {
  const auto found =
      std::find_if(nodes.begin(), nodes.end(), [&](const NodeSums& node) { return node.shards == shards; });
  if (found != nodes.end()) return found->sums;
  if (shards.count() <= 1)
    throw Error(ErrorCode::internal, "no pass computes shard " + std::to_string(shards.begin));
  const int64_t middle = middle_of(shards.begin, shards.end);
  kernels::NormSums left = folded(nodes, {shards.begin, middle}, add);
  add(left, folded(nodes, {middle, shards.end}, add));
  return left;
}

GroupMeeting::GroupMeeting(Range group, Range own, OtherRanks others)
    : group_(group), own_(own), others_(std::move(others)) {}

void GroupMeeting::break_with(Error error) {
  if (!error_) error_ = std::move(error);
  broken_ = true;
  changed_.notify_all();
}

void GroupMeeting::give_up() {
  const std::lock_guard lock(mutex_);
  break_with(given_up());
}

void GroupMeeting::leave(Range node) {
  const std::lock_guard lock(mutex_);
  left_ += node.count();
  if (arrived_ > 0 && arrived_ + left_ >= own_.count()) break_with(different_layers());
  if (left_ == own_.count() && others_.leave) others_.leave();
}

// The processor is left to others while the pass waits, at once if a pass of the same worker wants it.
void GroupMeeting::wait_for_round(int64_t round, std::unique_lock<std::mutex>& lock, Turn* turn) {
  const auto over = [&] { return rounds_ != round || broken_; };
  lock.unlock();
  if (turn != nullptr) turn->unlock();
  const auto end = std::chrono::steady_clock::now() + (turn == nullptr ? kSpin : kSpin * 0);
  while (!over() && std::chrono::steady_clock::now() < end) {
  }
  lock.lock();
  changed_.wait(lock, over);
  if (turn == nullptr) return;
  lock.unlock();
  turn->lock();
  lock.lock();
}

void GroupMeeting::finish_round(std::unique_lock<std::mutex>& lock, kernels::NormExchange::Add add,
                                double& waited) {
  std::vector<NodeSums> nodes = std::exchange(nodes_, {});
  arrived_ = 0;
  if (others_.exchange) {
    lock.unlock();  // give_up() must not wait for the other ranks
    const auto start = std::chrono::steady_clock::now();
    try {
      nodes = others_.exchange(std::move(nodes));
      if (count_of(nodes) != group_.count()) throw different_layers();
    } catch (...) {
      give_up();
      throw;
    }
    waited += seconds_since(start);
    lock.lock();
  }
  result_ = folded(nodes, group_, add);
  ++rounds_;
  changed_.notify_all();
}

kernels::NormSums GroupMeeting::fold(NodeSums own, kernels::NormExchange::Add add, Turn* turn,
                                     double& waited) {
  std::unique_lock lock(mutex_);
  const int64_t round = rounds_;
  if (!nodes_.empty() && nodes_.front().sums.size() != own.sums.size()) break_with(different_layers());
  arrived_ += own.shards.count();
  if (arrived_ + left_ >= own_.count() && left_ > 0) break_with(different_layers());
  if (broken_) throw Error(*error_);
  nodes_.push_back(std::move(own));
  if (arrived_ == own_.count()) {
    finish_round(lock, add, waited);
  } else {
    const auto start = std::chrono::steady_clock::now();
    wait_for_round(round, lock, turn);
    if (turn == nullptr) waited += seconds_since(start);
    if (rounds_ == round) throw Error(*error_);
  }
  return result_;
}

kernels::NormSums GroupMeeting::Pass::fold(kernels::NormSums own, Add add) {
  return meeting_.fold({node_, std::move(own)}, add, turn_, waited_);
}

GroupMeeting::Pass::~Pass() { meeting_.leave(node_); }

}  // namespace lockstep::train
