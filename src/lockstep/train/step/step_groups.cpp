#include "lockstep/train/step/step_groups.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

Range common(Range left, Range right) {
  return {std::max(left.begin, right.begin), std::min(left.end, right.end)};
}

}  // namespace

StepGroups::StepGroups(Options options, comm::Communicator& comm) : options_(std::move(options)) {
  if (options_.spans_ranks) rounds_ = std::make_unique<RankRounds>(comm, [this] { break_meetings(); });
}

StepWork StepGroups::divide(const data::Batch& batch, int64_t worker) {
  StepWork work{.batch = batch,
                .groups = norm_groups({batch.global_count, batch.shard_count, options_.group_samples})};
  if (!any()) {
    if (rounds_ != nullptr && worker == 0) begin_rounds({});
    work.free = batch.shards;
    return work;
  }
  const Deal& deal = options_.deal;
  const Range of_rank = deal.of_rank(batch.shard_count, options_.rank);
  std::vector<SpanningGroup> spanning = spanning_groups(work.groups, batch.shard_count, deal);
  if (rounds_ != nullptr && worker == 0) {
    RankRounds::OwnGroups own;
    for (const SpanningGroup& group : spanning) {
      if (group.spans_ranks && common(group.shards, of_rank).count() > 0)
        own[static_cast<size_t>(group.turn)] = group.shards;
    }
    begin_rounds(own);
  }
  std::stable_sort(spanning.begin(), spanning.end(),
                   [](const auto& a, const auto& b) { return a.turn < b.turn; });
  const int64_t first_worker = options_.rank * deal.workers_of_rank();
  const Range own = deal.of_worker(batch.shard_count, first_worker + worker);
  const auto shards_of = [&](Range range) {
    const auto begin = batch.shards.begin() + (range.begin - own.begin);
    return std::vector<data::Shard>(begin, begin + range.count());
  };
  Range free = own;
  for (const SpanningGroup& group : spanning) {
    const Range part = common(group.shards, own);
    if (part.count() <= 0) continue;
    work.placed.push_back({shards_of(part), &meeting_of(group, batch.shard_count)});
    if (part.begin == own.begin) free.begin = std::max(free.begin, part.end);
    if (part.end == own.end) free.end = std::min(free.end, part.begin);
  }
  if (free.count() > 0) work.free = shards_of(free);
  return work;
}

GroupMeeting& StepGroups::meeting_of(const SpanningGroup& group, int64_t shard_count) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<GroupMeeting>& meeting = meetings_[group.shards.begin];
  if (meeting != nullptr) return *meeting;
  GroupMeeting::OtherRanks others;
  if (group.spans_ranks) {
    if (rounds_ == nullptr) throw Error(ErrorCode::internal, "a group of batch norms spans ranks");
    const auto turn = static_cast<size_t>(group.turn);
    others.exchange = [this, turn](std::vector<NodeSums> own) {
      return rounds_->exchange(turn, std::move(own));
    };
    others.leave = [this, turn] { rounds_->leave(turn); };
  }
  meeting = std::make_unique<GroupMeeting>(
      group.shards, common(group.shards, options_.deal.of_rank(shard_count, options_.rank)),
      std::move(others));
  if (given_up_) meeting->give_up();
  return *meeting;
}

void StepGroups::break_meetings() {
  const std::lock_guard lock(mutex_);
  given_up_ = true;
  for (auto& [begin, meeting] : meetings_) meeting->give_up();
}

void StepGroups::give_up(int64_t worker) {
  fail();
  if (rounds_ != nullptr && worker == 0 && !begun_) begin_rounds({});
}

void StepGroups::fail() {
  if (rounds_ != nullptr) rounds_->give_up();
  break_meetings();
}

void StepGroups::begin_rounds(const RankRounds::OwnGroups& own) {
  rounds_->begin_step(own);
  begun_ = true;
}

void StepGroups::end_step() {
  if (rounds_ != nullptr) rounds_->end_step();
  begun_ = false;
  const std::lock_guard lock(mutex_);
  given_up_ = false;
  meetings_.clear();
}

}  // namespace lockstep::train
