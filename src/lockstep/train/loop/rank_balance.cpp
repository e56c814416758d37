#include "lockstep/train/loop/rank_balance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include <ATen/Functions.h>

#include "lockstep/base/text.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/step/norm_groups.h"

namespace lockstep::train {
namespace {

constexpr int64_t kLeastWindowSteps = 5;  // of a window
constexpr double kFirstWindow = 2;        // seconds, of the first one that is judged
constexpr double kLongestWindow = 30;     // seconds
constexpr double kWorthMoving = 0.9;      // time of a step, as a part of the present one

// The groups of batch norms in a whole mini-batch, if they are whole on ranks now; otherwise each shard.
std::vector<Range> groups_of(const Plan& plan, int64_t ranks) {
  const StepPlan& step = plan.step;
  const int64_t shards = used_shards(step.shards, step.mini_batch_size);
  const int64_t samples = step.accumulate == 1 ? step.batch_norm_group : 0;
  const std::vector<Range> groups = norm_groups({step.mini_batch_size, shards, samples});
  const auto spanning = spanning_groups(groups, shards, {ranks, /*workers=*/ranks, plan.machine.rank_loads});
  return spanning.empty() ? groups : norm_groups({step.mini_batch_size, shards, 0});
}

double slowest(const std::vector<int64_t>& parts, const std::vector<double>& seconds_of_shard) {
  double most = 0;
  for (size_t rank = 0; rank < parts.size(); ++rank)
    most = std::max(most, static_cast<double>(parts[rank]) * seconds_of_shard[rank]);
  return most;
}

std::vector<int64_t> parts_of(const Plan& plan, int64_t ranks, const std::vector<Range>& groups) {
  const bool measures = ranks > 1 && any_deal_is_right(plan) && plan.machine.device == "cpu" &&
                        static_cast<int64_t>(groups.size()) >= ranks;
  return measures ? plan.machine.deal(ranks).parts(groups.back().end) : std::vector<int64_t>();
}

}  // namespace

// Dynamic programming over the ranks: least[g] is the time of the slowest of the ranks so far if they have
// the first g groups.
std::vector<int64_t> fastest_parts(const std::vector<Range>& groups,
                                   const std::vector<double>& seconds_of_shard) {
  const size_t count = groups.size(), ranks = seconds_of_shard.size();
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto begin_of = [&](size_t group) {
    return group == count ? groups.back().end : groups[group].begin;
  };
  std::vector<double> least(count + 1, kNever);
  least[0] = 0;
  std::vector<std::vector<size_t>> first_of(ranks, std::vector<size_t>(count + 1, 0));
  for (size_t rank = 0; rank < ranks; ++rank) {
    std::vector<double> next(count + 1, kNever);
    for (size_t end = rank + 1; end <= count; ++end) {
      for (size_t first = rank; first < end; ++first) {
        const double own = static_cast<double>(begin_of(end) - begin_of(first)) * seconds_of_shard[rank];
        const double time = std::max(least[first], own);
        if (time >= next[end]) continue;
        next[end] = time;
        first_of[rank][end] = first;
      }
    }
    least = std::move(next);
  }
  std::vector<int64_t> parts(ranks);
  size_t end = count;
  for (size_t rank = ranks; rank-- > 0;) {
    const size_t first = first_of[rank][end];
    parts[rank] = begin_of(end) - begin_of(first);
    end = first;
  }
  return parts;
}

RankBalance::RankBalance(const Plan& plan, Share rank, int64_t workers_here)
    : rank_(rank),
      samples_(plan.step.mini_batch_size),
      groups_(groups_of(plan, rank.size)),
      parts_(parts_of(plan, rank.size, groups_)),
      computed_(static_cast<size_t>(workers_here)),
      window_steps_(kLeastWindowSteps) {}

void RankBalance::end_step(comm::Communicator& comm, int64_t samples, double seconds) {
  if (parts_.empty()) return;
  passed_ += seconds;
  if (samples == samples_) {
    computing_ += *std::max_element(computed_.begin(), computed_.end());
    ++whole_;
  }
  if (++counted_ == window_steps_) end_window(comm);
}

// Rank 0 judges, so that the ranks agree whatever their arithmetic. The first window shows only how long a
// step is: in the first steps memory is taken and kernels are chosen.
void RankBalance::end_window(comm::Communicator& comm) {
  const auto ranks = static_cast<size_t>(rank_.size);
  const double own = whole_ > 0 ? computing_ / static_cast<double>(whole_) : 0;
  const auto all = comm.all_gather(at::full({1}, own, at::kDouble));
  std::vector<double> seconds_of_rank;
  for (const at::Tensor& seconds : all) seconds_of_rank.push_back(seconds.item<double>());
  better_loads_.clear();
  if (rank_.rank == 0 && window_ > 0) judge(seconds_of_rank);
  std::vector<int64_t> decided = better_loads_;
  decided.resize(ranks);
  decided.push_back(next_window_steps());
  const auto count = static_cast<int64_t>(decided.size());
  comm.broadcast({at::from_blob(decided.data(), {count}, at::kLong)}, 0);
  window_steps_ = decided.back();
  decided.pop_back();
  better_loads_ = decided.front() > 0 ? decided : std::vector<int64_t>();
  ++window_;
  counted_ = whole_ = 0;
  computing_ = passed_ = 0;
}

void RankBalance::judge(const std::vector<double>& seconds_of_rank) {
  std::vector<double> seconds_of_shard;
  for (size_t rank = 0; rank < parts_.size(); ++rank) {
    if (seconds_of_rank[rank] <= 0) return;
    seconds_of_shard.push_back(seconds_of_rank[rank] / static_cast<double>(parts_[rank]));
  }
  const std::vector<int64_t> parts = fastest_parts(groups_, seconds_of_shard);
  expected_ = slowest(parts, seconds_of_shard) / slowest(parts_, seconds_of_shard);
  if (expected_ < kWorthMoving) better_loads_ = parts;
}

int64_t RankBalance::next_window_steps() const {
  const double wanted = std::min(kLongestWindow, std::ldexp(kFirstWindow, static_cast<int>(window_)));
  const double of_step = passed_ / static_cast<double>(window_steps_);
  return std::max(kLeastWindowSteps, static_cast<int64_t>(std::ceil(std::min(1e6, wanted / of_step))));
}

std::string RankBalance::text() const {
  return "ranks are not equally fast: of a mini-batch they get " + join_numbers(better_loads_, ", ") +
         " shards from here on, not " + join_numbers(parts_, ", ") + "; a step is to take " +
         fixed(100 * expected_, 0) + " % of its time";
}

}  // namespace lockstep::train
