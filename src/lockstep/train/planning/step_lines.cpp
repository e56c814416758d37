#include <algorithm>
#include <string>

#include "lockstep/base/counted.h"
#include "lockstep/base/describe.h"
#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/shard_tree.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/planning/internal/line_groups.h"
#include "lockstep/train/step/norm_groups.h"
#include "lockstep/train/step/shard_runner_options.h"
#include "lockstep/train/update/optimizer.h"

namespace lockstep::train {
namespace {

// A worker keeps one buffer for each level of its part of the shard tree.
int64_t gradient_buffers(int64_t shards, int64_t workers) {
  int64_t depth = 1;
  for (int64_t own = divided_up(shards, workers); own > 1; own = (own + 1) / 2) ++depth;
  return depth * workers;
}

int64_t gradient_bytes(const Plan& plan) {
  return plan.network.learned_count * number_bytes(plan.step.precision);
}

// "because ..."; empty where several shards are computed at once, as far as is known.
std::string because_alone(const Plan& plan, int64_t shards) {
  const std::string why = why_shards_alone(plan, plan.machine.device);
  if (!why.empty()) return "because of " + why;
  if (plan.record.detect_anomaly) return "because of --detect-anomaly";
  const int64_t samples = plan.step.mini_batch_size / shards;
  return 2 * samples > kSamplesTogether
             ? "because " + with_commas(samples) + " samples are enough for one batch"
             : "";
}

// What it costs that each shard is computed alone; empty where it is not.
std::string price_of_shards_alone(const Plan& plan, int64_t shards) {
  if (shards < 2 || plan.machine.side_by_side) return "";
  const std::string because = because_alone(plan, shards);
  if (because.empty()) return "";
  return "; each shard alone, " + because + ": " + counted(shards - 1, "addition") + " of " +
         as_bytes(gradient_bytes(plan)) + " of gradients a step";
}

// How busy the worker with most shards leaves the others.
double busy_share(const Plan& plan, int64_t used, int64_t ranks) {
  const Deal deal = plan.machine.deal(ranks);
  int64_t largest = 0;
  for (int64_t worker = 0; worker < deal.workers; ++worker)
    largest = std::max(largest, deal.of_worker(used, worker).count());
  return static_cast<double>(used) / static_cast<double>(largest * deal.workers);
}

std::string shards_reason(const Plan& plan, const PlanReasons& reasons) {
  const int64_t shards = plan.step.shards, workers = plan.machine.workers;
  std::string text = reasons.shards_given
                         ? "asked for"
                         : "for " + with_commas(plan.network.learned_count) +
                               " learnables and mini-batches of " + std::to_string(plan.step.mini_batch_size);
  const int64_t used = used_shards(shards, plan.step.mini_batch_size);
  if (!plan.machine.rank_loads.empty() && reasons.deal.loads.empty()) {
    text +=
        "; by --worker-load ranks get " + join_numbers(plan.machine.deal(reasons.ranks).parts(used), ", ");
  } else {
    const double busy = busy_share(plan, used, reasons.ranks);
    text += "; " + std::to_string(workers) + (workers == 1 ? " worker is " : " workers are ") +
            fixed(100 * busy, 0) + " % busy";
  }
  if (used < shards) text += "; a mini-batch fills only " + std::to_string(used);
  return text + price_of_shards_alone(plan, used) + "; gradients take " +
         as_bytes(gradient_buffers(shards, workers) * gradient_bytes(plan));
}

// Nodes of the tree that ranks exchange: a rank sends a slice of each of its nodes to each other rank, and
// its finished slice of the sum to all.
PlanLine exchange_line(const Plan& plan, int64_t ranks) {
  const int64_t shards = used_shards(plan.step.shards, plan.step.mini_batch_size);
  int64_t least = shards, most = 0;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Range own = plan.machine.deal(ranks).of_rank(shards, rank);
    const auto nodes = static_cast<int64_t>(comm::whole_nodes(own, shards).size());
    least = std::min(least, nodes);
    most = std::max(most, nodes);
  }
  return {"exchange",
          (least == most ? "" : std::to_string(least) + " to ") + counted(most, "node") + " a rank",
          "of the tree over shards; a rank sends " + std::string(least == most ? "" : "at most ") +
              as_bytes((most + 1) * (ranks - 1) * gradient_bytes(plan) / ranks) + " a step"};
}

std::string mini_batch_reason(const StepPlan& step, const std::string& reason) {
  const int64_t used = used_shards(step.shards, step.mini_batch_size);
  return std::to_string(step.mini_batch_size / used) + " per shard" + (reason.empty() ? "" : "; " + reason);
}

// The groups, and what those cost that span workers.
std::string batch_norm_reason(const Plan& plan, const PlanReasons& reasons) {
  const StepPlan& step = plan.step;
  std::string text = !reasons.batch_norm_group_given ? "by default"
                     : step.batch_norm_group == step.mini_batch_size
                         ? "asked for: as one process of PyTorch with the whole mini-batch"
                         : "asked for";
  const int64_t shards = used_shards(step.shards, step.mini_batch_size);
  const std::vector<Range> groups = norm_groups({step.mini_batch_size, shards, step.batch_norm_group});
  text += "; " + counted(std::ssize(groups), "group") + " in a mini-batch";
  const auto spanning = spanning_groups(groups, shards, plan.machine.deal(reasons.ranks));
  if (spanning.empty()) return text + ", none spans workers";
  const bool ranks = std::any_of(spanning.begin(), spanning.end(),
                                 [](const SpanningGroup& group) { return group.spans_ranks; });
  text += ", " + std::to_string(spanning.size()) + (spanning.size() == 1 ? " spans" : " span") +
          (ranks ? " ranks or workers" : " workers") + ", which meet " +
          std::to_string(2 * plan.network.batch_norms * static_cast<int64_t>(spanning.size())) +
          " times a step";
  return ranks ? text + "; gradients are not exchanged during backward" : text;
}

std::string averaging_rule(const ExchangePlan& exchange) {
  std::string rule = exchange.outer_optimizer == OuterOptimizer::none
                         ? "weighted by samples"
                         : "outer Nesterov step, rate " + shortest(exchange.outer_learning_rate) +
                               ", momentum " + shortest(exchange.outer_momentum);
  rule += exchange.average_updaters ? "; the optimizer's state is averaged too"
                                    : "; each replica keeps its optimizer's state";
  if (exchange.averaging_warmup_steps > 0)
    rule += "; gradients are averaged in the first " + with_commas(exchange.averaging_warmup_steps) +
            " steps, and the replicas one step later";
  return rule;
}

void add_averaging_lines(std::vector<PlanLine>& lines, const Plan& plan, bool given) {
  const std::string count = std::to_string(plan.step.shards);
  // Weights, two gradients, and the optimizer's state.
  const int64_t vectors = 3 + rule_of(plan.update).state_count();
  lines.push_back({"replicas", count,
                   (given ? "asked for (--shards)" : "one for each worker") +
                       std::string("; each with its own weights, gradients and optimizer: ") +
                       as_bytes(plan.step.shards * vectors * plan.network.learned_count *
                                number_bytes(plan.step.precision))});
  lines.push_back({"mini-batch",
                   std::to_string(plan.step.mini_batch_size / plan.step.shards) + " per replica",
                   std::to_string(plan.step.mini_batch_size) + " in a step of all replicas"});
  const int64_t every = plan.exchange.averaging_frequency;
  lines.push_back({"exchange",
                   every == 1 ? "average at every step" : "average every " + std::to_string(every) + " steps",
                   averaging_rule(plan.exchange)});
  lines.push_back({"same weights", "yes",
                   given ? "for any number of workers: the replicas decide the weights"
                         : "for any number of workers with --shards " + count +
                               "; without it, another number of workers means other replicas and weights"});
}

void add_sampler_lines(std::vector<PlanLine>& lines, const StepPlan& step, bool averages) {
  lines.push_back({"sample order", "distributed-sampler",
                   "PyTorch's DistributedSampler, " + std::to_string(step.sampler_replicas) +
                       (averages ? " replicas" : " workers") + " with " +
                       std::to_string(step.mini_batch_size / step.sampler_replicas) +
                       " samples each in a step"});
  if (!averages)
    lines.push_back({"same weights", "no", "with another number of workers, a step has other samples"});
}

void add_compression_lines(std::vector<PlanLine>& lines, const ExchangePlan& exchange) {
  std::string how;
  if (exchange.kind == ExchangeKind::bf16) how = "gradients travel as bfloat16 and are added in 32 bits";
  if (exchange.kind == ExchangeKind::fp16) how = "gradients travel as float16 and are added in 32 bits";
  const bool factors = exchange.kind == ExchangeKind::powersgd;
  if (factors)
    how = "matrices of gradients travel as two factors of " + std::to_string(exchange.powersgd_rank) +
          " columns";
  if (how.empty()) return;
  lines.push_back({"exchange", describe_detail::as_text(exchange.kind), how});
  lines.push_back(
      {"same weights", "no",
       std::string("for any number of workers of a rank; with another number of ranks, other sums "
                   "are rounded") +
           (factors ? ", and a resume begins without the errors that earlier steps left out" : "")});
}

}  // namespace

std::vector<PlanLine> step_lines(const Plan& plan, const PlanReasons& reasons) {
  std::vector<PlanLine> lines;
  if (plan.exchange.averages()) {
    add_averaging_lines(lines, plan, reasons.shards_given);
  } else {
    lines.push_back({"shards", std::to_string(plan.step.shards), shards_reason(plan, reasons)});
    lines.push_back({"mini-batch", std::to_string(plan.step.mini_batch_size),
                     mini_batch_reason(plan.step, reasons.mini_batch)});
    if (plan.step.batch_norm_group > 0)
      lines.push_back(
          {"batch norm", counted(plan.step.batch_norm_group, "sample"), batch_norm_reason(plan, reasons)});
  }
  if (!reasons.deal.loads.empty()) lines.push_back({"deal", reasons.deal.value, reasons.deal.reason});
  if (plan.step.out_of_memory == OutOfMemory::split)
    lines.push_back(
        {"out of memory", "split",
         "each shard is then computed in twice as many pieces; gradients are not exchanged during "
         "backward"});
  if (plan.step.sampler_replicas > 0) add_sampler_lines(lines, plan.step, plan.exchange.averages());
  if (plan.exchange.kind == ExchangeKind::tree && reasons.ranks > 1)
    lines.push_back(exchange_line(plan, reasons.ranks));
  add_compression_lines(lines, plan.exchange);
  return lines;
}

}  // namespace lockstep::train
