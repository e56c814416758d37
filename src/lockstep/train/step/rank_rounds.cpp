#include "lockstep/train/step/rank_rounds.h"

#include <utility>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

// The first number of a message.
constexpr double kGives = 0;
constexpr double kHasNothing = 1;
constexpr double kGivesUp = 2;

// After it the group's shards, then each node: its shards, the number of its sums, the sums.
std::vector<NodeSums> nodes_from(const at::Tensor& message, Range group) {
  const double* at = message.const_data_ptr<double>();
  const double* const end = at + message.numel();
  std::vector<NodeSums> nodes;
  if (*at != kGives || Range{static_cast<int64_t>(at[1]), static_cast<int64_t>(at[2])} != group) return nodes;
  for (at += 3; at < end;) {
    const Range shards{static_cast<int64_t>(at[0]), static_cast<int64_t>(at[1])};
    const auto count = static_cast<int64_t>(at[2]);
    nodes.push_back({shards, kernels::NormSums(at + 3, at + 3 + count)});
    at += 3 + count;
  }
  return nodes;
}

}  // namespace

RankRounds::RankRounds(comm::Communicator& comm, std::function<void()> on_give_up)
    : comm_(comm), on_give_up_(std::move(on_give_up)) {
  thread_ = std::thread([this] { serve(); });
}

// If a step is under way, the group has been aborted before, so no exchange waits.
RankRounds::~RankRounds() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    given_up_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void RankRounds::begin_step(const OwnGroups& own) {
  {
    const std::lock_guard lock(mutex_);
    state_ = State::open;
    for (size_t turn = 0; turn < kTurns; ++turn) turns_[turn].group = own[turn];
  }
  changed_.notify_all();
}

std::vector<NodeSums> RankRounds::exchange(size_t turn, std::vector<NodeSums> own) {
  std::unique_lock lock(mutex_);
  OwnTurn& here = turns_[turn];
  here.given = std::move(own);
  changed_.notify_all();
  changed_.wait(lock, [&] { return here.taken || given_up_ || dropped_ || error_; });
  if (error_) std::rethrow_exception(error_);
  if (!here.taken) throw Error(ErrorCode::cancelled, "another rank has given up the step");
  return *std::exchange(here.taken, std::nullopt);
}

void RankRounds::leave(size_t turn) {
  {
    const std::lock_guard lock(mutex_);
    turns_[turn].left = true;
  }
  changed_.notify_all();
}

void RankRounds::give_up() {
  {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
  }
  changed_.notify_all();
}

void RankRounds::end_step() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ == State::over || error_; });
  if (error_) std::rethrow_exception(error_);
  state_ = State::idle;
  turns_ = {};
  given_up_ = dropped_ = false;
}

void RankRounds::serve() {
  at::set_num_threads(1);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || state_ == State::open; });
    if (closing_) return;
    try {
      run_step(lock);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      error_ = std::current_exception();
      changed_.notify_all();
    }
    if (error_ || dropped_) {
      lock.unlock();
      on_give_up_();
      lock.lock();
    }
    state_ = State::over;
    changed_.notify_all();
    if (error_) return;
  }
}

void RankRounds::run_step(std::unique_lock<std::mutex>& lock) {
  for (size_t turn = 0; turn < kTurns; ++turn) {
    while (run_round(turn, lock)) {
    }
    if (dropped_) return;
  }
}

// Whether another round of this turn follows.
bool RankRounds::run_round(size_t turn, std::unique_lock<std::mutex>& lock) {
  OwnTurn& here = turns_[turn];
  changed_.wait(lock, [&] { return given_up_ || !here.group || here.given || here.left; });
  const at::Tensor message = message_of(here);
  here.given.reset();
  lock.unlock();
  const std::vector<at::Tensor> all = comm_.all_gather(message);
  lock.lock();
  std::vector<NodeSums> nodes;
  bool more = false;
  for (const at::Tensor& of_rank : all) {
    const double kind = *of_rank.const_data_ptr<double>();
    dropped_ = dropped_ || kind == kGivesUp;
    more = more || kind == kGives;
    if (!here.group) continue;
    for (NodeSums& node : nodes_from(of_rank, *here.group)) nodes.push_back(std::move(node));
  }
  if (*message.const_data_ptr<double>() == kGives) here.taken = std::move(nodes);
  changed_.notify_all();
  return more && !dropped_;
}

at::Tensor RankRounds::message_of(const OwnTurn& own) const {
  if (given_up_) return at::full({1}, kGivesUp, at::kDouble);
  if (!own.given) return at::full({1}, kHasNothing, at::kDouble);
  std::vector<double> numbers{kGives, static_cast<double>(own.group->begin),
                              static_cast<double>(own.group->end)};
  for (const NodeSums& node : *own.given) {
    numbers.insert(numbers.end(),
                   {static_cast<double>(node.shards.begin), static_cast<double>(node.shards.end),
                    static_cast<double>(node.sums.size())});
    numbers.insert(numbers.end(), node.sums.begin(), node.sums.end());
  }
  return at::tensor(numbers, at::kDouble);
}

}  // namespace lockstep::train
