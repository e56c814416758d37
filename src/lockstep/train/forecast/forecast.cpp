#include "lockstep/train/forecast/forecast.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/shard_tree.h"

namespace lockstep::train {
namespace {

constexpr double kUnequal = 1.25;          // slowest over fastest, from which on a warning is given
constexpr double kWorthMoreWorkers = 1.1;  // from twice the workers, or they are not advised
constexpr int64_t kManyGpus = 8;
// Successive messages of an exchange between ranks: what will be sent, slices to their owners, sums back.
constexpr double kRounds = 3;
constexpr double kBucketBytes = 1 << 20;  // approximately what ranks choose (comm/buckets.h)

double curve_at(const std::vector<double>& curve, int64_t threads) {
  return curve.at(
      static_cast<size_t>(std::clamp<int64_t>(threads, 1, static_cast<int64_t>(curve.size())) - 1));
}

// Seconds until all workers of one machine have done the shards in `left`. With `takeover`, a worker that is
// done takes a shard from the worker that has the most left.
double seconds_until_done(std::vector<int64_t> left, const std::vector<double>& seconds, bool takeover) {
  std::vector<double> free(left.size(), 0.0);
  double end = 0;
  if (!takeover) {
    for (size_t i = 0; i < left.size(); ++i) end = std::max(end, static_cast<double>(left[i]) * seconds[i]);
    return end;
  }
  for (;;) {
    const auto next = std::min_element(free.begin(), free.end());
    const auto worker = static_cast<size_t>(next - free.begin());
    const auto from = left[worker] > 0 ? left.begin() + static_cast<std::ptrdiff_t>(worker)
                                       : std::max_element(left.begin(), left.end());
    if (*from == 0) return end;
    --*from;
    *next += seconds[worker];
    end = std::max(end, *next);
  }
}

// For one number of workers.
class CostModel {
 public:
  CostModel(const Plan& plan, const StepCosts& costs, const ForecastOptions& asked, int64_t workers)
      : plan_(plan), costs_(costs), asked_(asked), workers_(workers) {
    const int64_t each =
        asked.workers_per_machine > 0 ? std::min(asked.workers_per_machine, workers) : workers;
    row_.workers = workers;
    row_.machines = divided_up(workers, each);
    row_.mini_batch_size = plan.step.mini_batch_size;
    int64_t shards = plan.step.shards;
    if (plan.step.scales_with_workers) {
      row_.mini_batch_size =
          std::min(plan.step.mini_batch_size / plan.machine.workers * workers, plan.data.train_count);
      shards = plan.step.shards / plan.machine.workers * workers;
    }
    shards_ = used_shards(shards, row_.mini_batch_size);
    here_ = part_of(workers, row_.machines, 0).count();  // the largest part comes first
    on_gpu_ = plan.machine.device != "cpu";
    cores_ = on_gpu_ ? costs.cores : std::max(costs.cores, here_);
    row_.elsewhere =
        row_.machines > 1 || here_ > (on_gpu_ ? static_cast<int64_t>(costs.shard.size()) : costs.cores);
    row_.assumed = row_.elsewhere || has_given_speeds() || row_.mini_batch_size != plan.step.mini_batch_size;
  }

  ForecastRow row() {
    compute_times();
    name_bottleneck();
    return row_;
  }

  double network() const { return network_; }
  int64_t shards() const { return shards_; }

 private:
  void compute_times() {
    const double scale =
        static_cast<double>(row_.mini_batch_size) / static_cast<double>(shards_ * costs_.shard_samples);
    shard_ = with_all(costs_.shard) * scale;
    for (int64_t machine = 0; machine < row_.machines; ++machine)
      row_.compute = std::max(row_.compute, compute_on(machine));
    network_ = row_.machines > 1 ? network_seconds() : 0;
    // The last bucket is sent after backward, which cannot hide it.
    const double bucket =
        network_ *
        std::min(1.0, kBucketBytes / static_cast<double>(std::max<int64_t>(1, costs_.gradient_bytes)));
    const double hidden = overlaps() ? std::min(network_ - bucket, shard_ * costs_.backward_share) : 0;
    row_.exchange = local_exchange() + network_ - hidden;
    const double first_step = step_with(costs_.first_read + costs_.copy);
    row_.step = step_with(later_sample());
    row_.read = read_seconds(later_sample());
    add_times(first_step);
  }

  bool one_epoch() const { return plan_.length.total_steps <= plan_.length.steps_per_epoch; }
  ReadFrom read_from() const { return one_epoch() ? costs_.first_from : costs_.later_from; }
  double later_sample() const {
    return (one_epoch()                             ? costs_.first_read
            : costs_.later_from == ReadFrom::memory ? 0
                                                    : costs_.later_read) +
           costs_.copy;
  }
  bool overlaps() const { return row_.machines > 1 && plan_.exchange.overlap; }

  double speed_of(int64_t worker) const {
    const auto& speeds = asked_.worker_speeds;
    return speeds.empty()
               ? 1
               : static_cast<double>(speeds[std::min(static_cast<size_t>(worker), speeds.size() - 1)]) / 100;
  }

  bool has_given_speeds() const {
    for (int64_t worker = 0; worker < workers_; ++worker) {
      if (speed_of(worker) != 1) return true;
    }
    return false;
  }

  double compute_on(int64_t machine) const {
    const Range of_machine = part_of(workers_, row_.machines, machine);
    std::vector<int64_t> own;
    std::vector<double> seconds;
    for (int64_t worker = of_machine.begin; worker < of_machine.end; ++worker) {
      own.push_back(part_of(shards_, workers_, worker).count());
      seconds.push_back(shard_ / speed_of(worker));
    }
    return seconds_until_done(std::move(own), seconds, !on_gpu_);
  }

  // With more cores than this machine has: all nodes, the weights and the optimizer's state pass through
  // memory, which is assumed to be as fast as here.
  double local_exchange() const {
    const auto measured = static_cast<int64_t>(costs_.exchange.size());
    const double seconds = curve_at(costs_.exchange, here_);
    const auto vectors = [&](int64_t threads) { return static_cast<double>(std::min(threads, shards_) + 4); };
    return here_ <= measured ? seconds : seconds * vectors(here_) / vectors(measured);
  }

  // A rank sends slices of each of its nodes to the other ranks, and its finished slice to all.
  double network_seconds() const {
    size_t nodes = 1;
    for (int64_t machine = 0; machine < row_.machines; ++machine) {
      const Range of_machine = part_of(workers_, row_.machines, machine);
      const Range own{part_of(shards_, workers_, of_machine.begin).begin,
                      part_of(shards_, workers_, of_machine.end - 1).end};
      nodes = std::max(nodes, comm::whole_nodes(own, shards_).size());
    }
    const double others = static_cast<double>(row_.machines - 1) / static_cast<double>(row_.machines);
    const double bytes =
        (static_cast<double>(nodes) + 1) * others * static_cast<double>(costs_.gradient_bytes);
    return bytes / (asked_.network_bandwidth * 1e9 / 8) + kRounds * asked_.network_latency * 1e-6;
  }

  // Each worker has its own thread that reads its shards ahead. A store serves a machine as a whole.
  double read_seconds(double sample) const {
    const auto batch = static_cast<double>(row_.mini_batch_size);
    const double own =
        batch * static_cast<double>(part_of(shards_, workers_, 0).count()) / static_cast<double>(shards_);
    const double of_machine = batch * static_cast<double>(here_) / static_cast<double>(workers_);
    return costs_.parallel_reads > 0
               ? of_machine * sample
               : std::max(own * sample, of_machine * sample / static_cast<double>(cores_));
  }

  double step_with(double sample) const {
    const double of_machine = static_cast<double>(here_) / static_cast<double>(workers_);
    double work =
        costs_.parallel_reads > 0 ? 0 : static_cast<double>(row_.mini_batch_size) * of_machine * sample;
    if (!on_gpu_)
      work += static_cast<double>(shards_) * of_machine * shard_ + static_cast<double>(here_) * row_.exchange;
    return std::max({row_.compute + row_.exchange, read_seconds(sample), work / static_cast<double>(cores_)});
  }

  // Of a curve, where all workers of a machine compute that have shards.
  double with_all(const std::vector<double>& curve) const {
    return curve_at(curve, std::min(here_, shards_));
  }

  // Forward only; as many workers as have shards.
  double pass_seconds(int64_t samples, double sample, double read) const {
    const auto count = static_cast<double>(samples);
    const double parts =
        static_cast<double>(shards_) / static_cast<double>(part_of(shards_, workers_, 0).count());
    const double reading = costs_.parallel_reads > 0
                               ? count * read / static_cast<double>(row_.machines)
                               : count * read / std::min(parts, static_cast<double>(workers_));
    return std::max(count * sample / parts, reading);
  }

  void add_times(double first_step) {
    const double steps =
        static_cast<double>(plan_.data.train_count) / static_cast<double>(row_.mini_batch_size);
    const double validations = static_cast<double>(plan_.length.steps_per_epoch) /
                               static_cast<double>(std::max<int64_t>(1, plan_.length.validate_every));
    const auto validate = [&](double read) {
      return pass_seconds(plan_.data.validation_count, with_all(costs_.evaluate_sample), read);
    };
    const double later_read =
        costs_.later_from == ReadFrom::memory ? costs_.copy : costs_.later_read + costs_.copy;
    row_.first_epoch = steps * first_step +
                       std::min(1.0, validations) * validate(costs_.first_read + costs_.copy) +
                       std::max(0.0, validations - 1) * validate(later_read);
    row_.later_epoch =
        one_epoch() ? row_.first_epoch : steps * row_.step + validations * validate(later_read);
    if (costs_.feature_sample > 0)
      row_.first_epoch += pass_seconds(plan_.data.train_count + plan_.data.validation_count,
                                       costs_.feature_sample * with_all(costs_.shard) / costs_.shard.front(),
                                       costs_.first_read);
    const double epochs = static_cast<double>(plan_.length.total_steps) /
                          static_cast<double>(std::max<int64_t>(1, plan_.length.steps_per_epoch));
    row_.run = std::min(epochs, 1.0) * row_.first_epoch + std::max(0.0, epochs - 1) * row_.later_epoch;
    row_.images_per_second = static_cast<double>(row_.mini_batch_size) / row_.step;
  }

  void name_bottleneck() {
    if (row_.read >= std::max(row_.compute, row_.exchange)) {
      row_.bottleneck =
          read_from() == ReadFrom::decode && costs_.first_read > costs_.copy ? "decode" : "copy";
      row_.advice = row_.bottleneck == "decode" ? reading_advice()
                    : plan_.data.augment.any()  ? "fewer or cheaper augmentations (--augment)"
                                                : "more cores on a machine, to read beside the workers";
    } else if (row_.exchange > row_.compute) {
      row_.bottleneck = "exchange";
      row_.advice = "a larger --mini-batch-size";
      if (row_.machines > 1 && plan_.exchange.kind == ExchangeKind::tree)
        row_.advice += ", --exchange bf16 or powersgd";
      row_.advice += ", or fewer workers";
    } else {
      row_.bottleneck = "compute";
      row_.advice = computing_advice();
    }
  }

  std::string reading_advice() const {
    std::vector<std::string> ways;
    if (costs_.later_from == ReadFrom::decode && plan_.data.format.kind == data::SampleKind::image)
      ways.emplace_back("lockstep cache");
    if (plan_.data.format.decode == data::Decode::exact) ways.emplace_back("--decode fast for JPEG");
    if (costs_.parallel_reads > 0) ways.emplace_back("copy the data to this machine (lockstep copy)");
    return ways.empty() ? "smaller images on disk" : join(ways, ", or ");
  }

  std::string computing_advice() const {
    if (workers_ > shards_)
      return "--shards " + std::to_string(workers_) + " (other weights) or fewer workers";
    if (shards_ % workers_ != 0)
      return "--shards " + std::to_string((shards_ / workers_ + 1) * workers_) +
             " (other weights): now some workers wait while others compute " +
             counted(part_of(shards_, workers_, 0).count(), "shard");
    const bool has_cores = on_gpu_ || workers_ < costs_.cores;
    if (!on_gpu_ && more_workers_gain() < kWorthMoreWorkers)
      return plan_.data.format.kind == data::SampleKind::image
                 ? "a smaller network or smaller images (--image-size): more workers gain little"
                 : "a smaller network: more workers gain little";
    return std::string(has_cores ? "more workers" : "more cores, or machines, for more workers") +
           (workers_ * 2 <= shards_ ? "" : " and more --shards (other weights)");
  }

  // How many times faster the last doubling is that the cores of this machine allow.
  double more_workers_gain() const {
    const int64_t more = std::min(workers_ * 2, costs_.cores);
    const int64_t from = std::min(workers_, more / 2);
    return from < 1 ? kWorthMoreWorkers : speed_with(more) / speed_with(from);
  }

  double speed_with(int64_t workers) const {
    CostModel other(plan_, costs_, asked_, workers);
    other.compute_times();
    return other.row_.images_per_second;
  }

  const Plan& plan_;
  const StepCosts& costs_;
  const ForecastOptions& asked_;
  const int64_t workers_;
  int64_t shards_ = 1;
  int64_t here_ = 1;   // workers of the machine that has the most
  int64_t cores_ = 1;  // of that machine
  bool on_gpu_ = false;
  double shard_ = 0;  // seconds of a shard at speed 100
  double network_ = 0;
  ForecastRow row_;
};

void warn(Forecast& forecast, const Plan& plan, const ForecastOptions& asked) {
  std::string over_shards, elsewhere, exchange, machines;
  const auto add = [](std::string& list, int64_t workers) {
    list += (list.empty() ? "" : ", ") + std::to_string(workers);
  };
  for (const ForecastRow& row : forecast.rows) {
    if (row.workers > plan.step.shards) add(over_shards, row.workers);
    if (row.elsewhere) add(elsewhere, row.workers);
    if (row.exchange > row.compute) add(exchange, row.workers);
    if (row.machines > 1) add(machines, row.workers);
  }
  const auto say = [&](const std::string& workers, const std::string& text) {
    if (!workers.empty()) forecast.warnings.push_back("workers " + workers + ": " + text);
  };
  const bool on_gpu = plan.machine.device != "cpu";
  say(elsewhere,
      on_gpu ? "one GPU was measured; more GPUs like it are assumed, with the same total memory bandwidth"
             : "this machine has " + std::to_string(forecast.costs.cores) +
                   " cores; more cores like these are assumed, with the same total memory bandwidth");
  say(over_shards, "more than the " + std::to_string(plan.step.shards) +
                       " shards, and a worker computes whole shards: the other workers only read and wait");
  say(exchange, "the exchange takes longer than the computation; more workers make it slower");
  say(machines, "several machines: the network's " + shortest(asked.network_bandwidth) + " Gbit/s and " +
                    shortest(asked.network_latency) + " us are given values, not measured");
  if (on_gpu && !forecast.rows.empty() && forecast.rows.back().workers > kManyGpus &&
      asked.workers_per_machine == 0)
    forecast.warnings.emplace_back("few machines have more than 8 GPUs: give --workers-per-machine");
  const auto [slow, fast] = std::minmax_element(asked.worker_speeds.begin(), asked.worker_speeds.end());
  const bool given = slow != asked.worker_speeds.end() && *slow < *fast;
  if (!given && forecast.costs.slowest_over_fastest < kUnequal) return;
  forecast.warnings.push_back(
      std::string("workers are of unequal speed (") +
      (given ? "--worker-speeds" : "measured: " + fixed(forecast.costs.slowest_over_fastest, 2) + " to 1") +
      "): faster workers take over shards that others have not begun" +
      (on_gpu ? "; not between GPUs, where the slowest worker decides"
              : "; more --shards balance them better"));
}

}  // namespace

Forecast make_forecast(const Plan& plan, const StepCosts& costs, const ForecastOptions& asked) {
  if (plan.exchange.averages()) {
    throw Error(ErrorCode::invalid_option,
                "--forecast is for runs that add gradients; with --exchange average, the number of replicas "
                "depends on the workers",
                "leave out one of them");
  }
  Forecast forecast{.costs = costs, .rows = {}, .warnings = {}};
  const double alone = CostModel(plan, costs, asked, 1).row().images_per_second;
  std::vector<int64_t> counts = asked.forecast;
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  for (const int64_t workers : counts) {
    ForecastRow row = CostModel(plan, costs, asked, workers).row();
    row.speed_up = row.images_per_second / alone;
    row.efficiency = row.speed_up / static_cast<double>(workers);
    forecast.rows.push_back(std::move(row));
  }
  warn(forecast, plan, asked);
  return forecast;
}

Json to_json(const Forecast& forecast) {
  const StepCosts& costs = forecast.costs;
  Json rows = Json::array();
  for (const ForecastRow& row : forecast.rows) {
    rows.push_back({{"workers", row.workers},
                    {"machines", row.machines},
                    {"assumed", row.assumed},
                    {"mini_batch_size", row.mini_batch_size},
                    {"read_seconds", row.read},
                    {"compute_seconds", row.compute},
                    {"exchange_seconds", row.exchange},
                    {"step_seconds", row.step},
                    {"first_epoch_seconds", row.first_epoch},
                    {"later_epoch_seconds", row.later_epoch},
                    {"run_seconds", row.run},
                    {"images_per_second", row.images_per_second},
                    {"speed_up", row.speed_up},
                    {"efficiency", row.efficiency},
                    {"bottleneck", row.bottleneck},
                    {"advice", row.advice}});
  }
  return {{"measured",
           {{"cores", costs.cores},
            {"shard_samples", costs.shard_samples},
            {"shard_seconds", costs.shard},
            {"exchange_seconds", costs.exchange},
            {"evaluate_sample_seconds", costs.evaluate_sample},
            {"feature_sample_seconds", costs.feature_sample},
            {"first_from", enum_names(ReadFrom{})[static_cast<size_t>(costs.first_from)]},
            {"later_from", enum_names(ReadFrom{})[static_cast<size_t>(costs.later_from)]},
            {"first_read_sample_seconds", costs.first_read},
            {"later_read_sample_seconds", costs.later_read},
            {"copy_sample_seconds", costs.copy},
            {"gradient_bytes", costs.gradient_bytes},
            {"slowest_over_fastest", costs.slowest_over_fastest}}},
          {"rows", std::move(rows)},
          {"warnings", forecast.warnings}};
}

}  // namespace lockstep::train
