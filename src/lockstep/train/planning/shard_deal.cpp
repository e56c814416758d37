#include "lockstep/train/planning/shard_deal.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "lockstep/base/counted.h"
#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/shard_tree.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/step/norm_groups.h"

namespace lockstep::train {
namespace {

constexpr double kLeastBusy = 0.88;  // of the workers' time
constexpr double kMostMoreOfRank =
    10. / 9;                               // shards of a rank, over equal parts: rank_balance.cpp moves more
constexpr double kFlopsOfCore = 100e9;     // a second; docs/performance.md, with sgemm's limit
constexpr double kFlopsOfWork = 6;         // a multiplication and addition: forward, and backward twice
constexpr double kBackwardShare = 2. / 3;  // of a shard's time
constexpr double kMemoryRate = 20e9;       // bytes of nodes a second, written and added by all cores together
constexpr double kNetworkRate = 10e9 / 8;  // bytes a second: --network-bandwidth of forecasts
constexpr double kThreadsMeet = 1e-6;      // seconds
constexpr double kRanksMeet = 50e-6;       // seconds: --network-latency of forecasts

struct DealPrice {
  double seconds = 0;  // of a step
  int64_t least = 0;   // shards of a worker
  int64_t most = 0;
  int64_t most_of_rank = 0;
  int64_t sums = 0;      // nodes of all workers
  int64_t meetings = 0;  // a step
};

class DealModel {
 public:
  DealModel(const Plan& plan, const DealFacts& facts)
      : plan_(plan),
        facts_(facts),
        shards_(used_shards(plan.step.shards, plan.step.mini_batch_size)),
        groups_(norm_groups({plan.step.mini_batch_size, shards_,
                             plan.step.accumulate == 1 ? plan.step.batch_norm_group : 0})),
        gradient_bytes_(static_cast<double>(plan.network.learned_count * number_bytes(plan.step.precision))) {
    const double samples = static_cast<double>(plan.step.mini_batch_size) / static_cast<double>(shards_);
    // Where the work is not known, samples count more than anything else.
    shard_ = facts.work > 0 ? kFlopsOfWork * facts.work * samples / kFlopsOfCore : 1;
  }

  int64_t shards() const { return shards_; }
  Deal deal(std::vector<int64_t> loads) const {
    return {facts_.ranks, plan_.machine.workers, std::move(loads)};
  }
  double busy(const DealPrice& price) const {
    return static_cast<double>(shards_) / static_cast<double>(price.most * plan_.machine.workers);
  }

  DealPrice price(const Deal& deal) const {
    DealPrice price{.least = shards_};
    for (int64_t worker = 0; worker < deal.workers; ++worker) {
      const Range own = deal.of_worker(shards_, worker);
      price.least = std::min(price.least, own.count());
      price.most = std::max(price.most, own.count());
      price.sums += std::ssize(comm::whole_nodes(own, shards_));
    }
    int64_t most_nodes = 0;
    for (int64_t rank = 0; rank < deal.ranks; ++rank) {
      const Range own = deal.of_rank(shards_, rank);
      price.most_of_rank = std::max(price.most_of_rank, own.count());
      most_nodes = std::max<int64_t>(most_nodes, std::ssize(comm::whole_nodes(own, shards_)));
    }
    const std::vector<SpanningGroup> spanning = spanning_groups(groups_, shards_, deal);
    price.meetings = 2 * plan_.network.batch_norms * std::ssize(spanning);
    const bool ranks_meet = std::ranges::any_of(spanning, &SpanningGroup::spans_ranks);
    price.seconds = computing(deal, spanning) +
                    static_cast<double>(price.sums) * gradient_bytes_ / kMemoryRate +
                    sending(most_nodes, ranks_meet);
    return price;
  }

 private:
  // Until the last worker has done its parts of spanning groups, in their order, and then its other shards.
  double computing(const Deal& deal, std::vector<SpanningGroup> spanning) const {
    std::ranges::stable_sort(spanning, {}, &SpanningGroup::turn);
    std::vector<double> done(static_cast<size_t>(deal.workers));
    std::vector<int64_t> left;
    for (int64_t worker = 0; worker < deal.workers; ++worker)
      left.push_back(deal.of_worker(shards_, worker).count());
    for (const SpanningGroup& group : spanning) {
      const auto first = static_cast<size_t>(deal.worker_of(shards_, group.shards.begin)),
                 last = static_cast<size_t>(deal.worker_of(shards_, group.shards.end - 1));
      double begin = 0;
      int64_t largest = 0;
      for (size_t worker = first; worker <= last; ++worker) {
        const Range own = deal.of_worker(shards_, static_cast<int64_t>(worker));
        const int64_t part = std::min(own.end, group.shards.end) - std::max(own.begin, group.shards.begin);
        begin = std::max(begin, done[worker]);
        largest = std::max(largest, part);
        left[worker] -= part;
      }
      const double meeting = 2 * static_cast<double>(plan_.network.batch_norms) *
                             (group.spans_ranks ? kRanksMeet : kThreadsMeet);
      std::fill(done.begin() + static_cast<std::ptrdiff_t>(first),
                done.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                begin + static_cast<double>(largest) * shard_ + meeting);
    }
    double end = 0;
    for (size_t worker = 0; worker < done.size(); ++worker)
      end = std::max(end, done[worker] + static_cast<double>(left[worker]) * shard_);
    return end;
  }

  // A rank sends a slice of each of its nodes to each other rank, and its slice of the sum to all.
  double sending(int64_t nodes, bool ranks_meet) const {
    if (facts_.ranks == 1 || facts_.one_machine) return 0;
    const auto ranks = static_cast<double>(facts_.ranks);
    const double seconds =
        static_cast<double>(nodes + 1) * (ranks - 1) / ranks * gradient_bytes_ / kNetworkRate;
    const bool hides = plan_.exchange.overlap && !ranks_meet;
    return hides ? std::max(0.0, seconds - kBackwardShare * shard_) : seconds;
  }

  const Plan& plan_;
  const DealFacts& facts_;
  const int64_t shards_;
  const std::vector<Range> groups_;
  const double gradient_bytes_;  // of a node
  double shard_ = 0;             // seconds of a shard
};

void cut_into_nodes(Range node, int64_t count, std::vector<Range>& nodes) {
  if (count == 1) {
    nodes.push_back(node);
    return;
  }
  const int64_t middle = middle_of(node.begin, node.end);
  cut_into_nodes({node.begin, middle}, count / 2, nodes);
  cut_into_nodes({middle, node.end}, count / 2, nodes);
}

// The shards of each worker, where equally many of these nodes go to each.
std::vector<int64_t> loads_of_nodes(const std::vector<Range>& nodes, int64_t workers) {
  std::vector<int64_t> loads;
  for (int64_t worker = 0; worker < workers; ++worker) {
    const Range own = part_of(std::ssize(nodes), workers, worker);
    loads.push_back(nodes[static_cast<size_t>(own.end - 1)].end -
                    nodes[static_cast<size_t>(own.begin)].begin);
  }
  return loads;
}

bool may_choose_deal(const Plan& plan) {
  return plan.machine.device == "cpu" && plan.machine.rank_loads.empty() && any_deal_is_right(plan) &&
         plan.step.sampler_replicas == 0;
}

std::string of_workers(int64_t least, int64_t most) {
  return (least == most ? "" : std::to_string(least) + " to ") + counted(most, "shard") + " a worker";
}

}  // namespace

ShardDeal choose_deal(const Plan& plan, const DealFacts& facts) {
  if (!may_choose_deal(plan)) return {};
  const DealModel model(plan, facts);
  const DealPrice equal = model.price(model.deal({}));
  const double least_busy = std::min(kLeastBusy, model.busy(equal));
  DealPrice best = equal;
  std::vector<int64_t> loads;
  const auto workers = static_cast<uint64_t>(plan.machine.workers);
  for (auto count = static_cast<int64_t>(std::bit_ceil(workers)); count < model.shards(); count *= 2) {
    std::vector<Range> nodes;
    cut_into_nodes({0, model.shards()}, count, nodes);
    std::vector<int64_t> other = loads_of_nodes(nodes, plan.machine.workers);
    const DealPrice price = model.price(model.deal(other));
    const bool ranks_stay = facts.ranks == 1 || static_cast<double>(price.most_of_rank) <=
                                                    kMostMoreOfRank * static_cast<double>(equal.most_of_rank);
    if (price.seconds >= best.seconds || model.busy(price) < least_busy || !ranks_stay) continue;
    best = price;
    loads = std::move(other);
  }
  if (loads.empty()) return {};
  return {std::move(loads), of_workers(best.least, best.most),
          "in nodes of the tree: " + counted(best.sums, "sum") + " of gradients and " +
              counted(best.meetings, "meeting") + " for batch norm a step, not " + with_commas(equal.sums) +
              " and " + with_commas(equal.meetings) + " as with " + of_workers(equal.least, equal.most)};
}

}  // namespace lockstep::train
