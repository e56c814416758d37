#include "lockstep/train/loop/piece_choice.h"

#include <algorithm>
#include <utility>

namespace lockstep::train {
namespace {

constexpr double kPieceWindow = 1;         // seconds
constexpr int64_t kPieceWindowSteps = 15;  // at least; the first ones are those in which pass_size.h measures
constexpr double kUnequalWorkers = 1.25;   // slowest over average, from which on halves are tried
constexpr double kWorthHalving = 0.95;     // time of a step with halves, as a part of that without
constexpr int64_t kLongestWait = 64;       // windows

std::vector<int64_t> shards_of_workers(const Plan& plan, Share rank) {
  const Deal deal = plan.machine.deal(rank.size);
  const int64_t each = deal.workers_of_rank(),
                shards = used_shards(plan.step.shards, plan.step.mini_batch_size);
  std::vector<int64_t> counts;
  for (int64_t worker = 0; worker < each; ++worker)
    counts.push_back(deal.of_worker(shards, rank.rank * each + worker).count());
  return counts;
}

bool measures_pieces(const Plan& plan, Share rank, Takeover takeover) {
  return plan.machine.device == "cpu" && takeover == Takeover::allowed && !plan.exchange.averages() &&
         plan.machine.deal(rank.size).workers_of_rank() > 1;
}

}  // namespace

PieceChoice::PieceChoice(const Plan& plan, Share rank, Takeover takeover)
    : samples_(plan.step.mini_batch_size),
      shards_(measures_pieces(plan, rank, takeover) ? shards_of_workers(plan, rank)
                                                    : std::vector<int64_t>()) {}

OwnShards PieceChoice::end_step(const std::vector<double>& seconds_of_workers, int64_t samples,
                                double seconds) {
  if (shards_.empty()) return now_;
  passed_ += seconds;
  if (samples == samples_) {
    double slowest = 0, sum = 0;
    int64_t counted = 0;
    for (size_t worker = 0; worker < shards_.size(); ++worker) {
      if (shards_[worker] == 0) continue;
      const double of_shard = seconds_of_workers.at(worker) / static_cast<double>(shards_[worker]);
      slowest = std::max(slowest, of_shard);
      sum += of_shard;
      ++counted;
    }
    slowest_ += slowest;
    average_ += sum / static_cast<double>(std::max<int64_t>(1, counted));
    computing_ += *std::max_element(seconds_of_workers.begin(), seconds_of_workers.end());
    ++steps_;
  }
  if (steps_ >= kPieceWindowSteps && passed_ >= kPieceWindow) end_window();
  return now_;
}

// In the first window memory is taken and kernels are chosen.
void PieceChoice::end_window() {
  const double of_step = computing_ / static_cast<double>(steps_);
  const bool unequal = slowest_ >= kUnequalWorkers * average_;
  steps_ = 0;
  passed_ = slowest_ = average_ = computing_ = 0;
  if (!std::exchange(warm_, true)) return;
  if (std::exchange(tried_, false)) {
    if (of_step >= kWorthHalving * together_) now_ = OwnShards::together;
    wait_ = next_wait_;
    next_wait_ = std::min(kLongestWait, 2 * next_wait_);
  } else if (wait_ > 0) {
    if (--wait_ == 0) now_ = OwnShards::together;
  } else if (unequal) {
    together_ = of_step;
    now_ = OwnShards::halved;
    tried_ = true;
  }
}

}  // namespace lockstep::train
