// Measures the times from which train::make_forecast computes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include <ATen/Parallel.h>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/shard_tree.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/train/update/exchange.h"
#include "lockstep/train/forecast/forecast.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/step/evaluation_batches.h"
#include "lockstep/train/step/shard_parts.h"
#include "lockstep/train/step/shard_probe.h"

namespace lockstep::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSeconds = 0.4;  // approximately, for each figure
constexpr int64_t kBad = -1;
constexpr int64_t kMostRead = 512;  // samples for the time of reading
constexpr int64_t kFewestRounds = 2;
constexpr int64_t kExchangeRounds = 12;  // the first one is a warm-up

// Seconds of one call: the lower quartile, because other work on the machine only adds time. The first call
// is a warm-up.
template <class Work>
double typical_seconds(const Work& work, double least_seconds) {
  work();
  std::vector<double> all;
  for (double sum = 0; sum < least_seconds || static_cast<int64_t>(all.size()) < kFewestRounds;) {
    const auto start = Clock::now();
    work();
    all.push_back(seconds_since(start));
    sum += all.back();
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 4];
}

double mean_of(const std::vector<double>& all) {
  return std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
}

// More threads at once are not faster each: where it seems so, other work disturbed the measurement.
void never_faster_together(std::vector<double>& curve) {
  for (size_t threads = curve.size(); threads-- > 1;)
    curve[threads - 1] = std::min(curve[threads - 1], curve[threads]);
}

// Between two measured numbers of threads the curve is linear.
void fill_curve(std::vector<double>& curve, int64_t threads, double seconds) {
  const auto had = static_cast<int64_t>(curve.size());
  const double from = had == 0 ? seconds : curve.back();
  for (int64_t i = had + 1; i <= threads; ++i)
    curve.push_back(from +
                    (seconds - from) * static_cast<double>(i - had) / static_cast<double>(threads - had));
}

class StepMeasurement {
 public:
  StepMeasurement(const Prepared& prepared, std::stop_token stop)
      : prepared_(prepared), plan_(prepared.plan), stop_(std::move(stop)), probe_(prepared.network, plan_) {
    costs_.cores = plan_.machine.cores;
  }

  StepCosts measure(const std::vector<int64_t>& workers) {
    measure_reading();
    const int64_t shards = used_shards(plan_.step.shards, plan_.step.mini_batch_size);
    costs_.shard_samples = divided_up(plan_.step.mini_batch_size, shards);
    shard_ = made_up_shard(plan_, costs_.shard_samples, typical_steps());
    measure_alone();
    const int64_t most = plan_.machine.device == "cpu" ? std::min(plan_.machine.cores, shards) : 1;
    std::vector<int64_t> counts{1, most};
    for (const int64_t count : workers) counts.push_back(std::min(count, most));
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    for (const int64_t threads : counts) measure_together(threads, shards);
    never_faster_together(costs_.shard);
    never_faster_together(costs_.evaluate_sample);
    const bool half = plan_.exchange.kind == ExchangeKind::bf16 || plan_.exchange.kind == ExchangeKind::fp16;
    const int64_t bytes = half ? 2 : number_bytes(plan_.step.precision);
    costs_.gradient_bytes = plan_.exchange.kind == ExchangeKind::powersgd
                                ? powersgd_bytes()
                                : plan_.network.learned_count * bytes;
    return costs_;
  }

 private:
  void check_stop() const {
    if (stop_.stop_requested())
      throw Error(ErrorCode::cancelled, "stopped while a step was measured for the forecast");
  }

  int64_t typical_steps() const {
    if (plan_.data.format.kind != data::SampleKind::sequence) return 0;
    if (plan_.step.tbptt_length > 0) return plan_.step.tbptt_length;
    int64_t longest = 1;  // of a shard's samples, taken evenly from the dataset
    for (const int64_t index : spaced(costs_.shard_samples))
      longest = std::max(longest, prepared_.train->dataset().store().image_size(index).width);
    return std::max(longest, plan_.data.least_time_steps);
  }

  std::vector<int64_t> spaced(int64_t most) const {
    const int64_t size = prepared_.train->size(), count = std::min(size, most);
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < count; ++i) indices.push_back(size * i / count);
    return indices;
  }

  void measure_reading() {
    const data::ImageSet& images = *prepared_.train;
    const bool in_memory =
        images.dataset().store().in_memory() || plan_.data.format.kind == data::SampleKind::sequence;
    costs_.parallel_reads = images.parallel_reads();
    costs_.first_from = in_memory                   ? ReadFrom::memory
                        : images.cache() != nullptr ? ReadFrom::cache
                                                    : ReadFrom::decode;
    costs_.later_from = in_memory || images.kept() || plan_.network.keep_features ? ReadFrom::memory
                        : plan_.machine.cached_images                             ? ReadFrom::cache
                                                                                  : ReadFrom::decode;
    const std::vector<int64_t> read = in_memory ? spaced(kMostRead) : read_for_the_first_time();
    measure_copy(read);
    // A cache that does not exist yet will be read from the system's memory, which takes as long as a copy.
    if (costs_.later_from != ReadFrom::memory)
      costs_.later_read = costs_.first_from == costs_.later_from ? costs_.first_read : costs_.copy;
  }

  // From a store, as many at once as a queue has threads. The first sample also opens libraries and files, so
  // it counts only if there is no other.
  std::vector<int64_t> read_for_the_first_time() {
    std::vector<int64_t> indices = spaced(kMostRead);
    const int64_t at_once = std::max<int64_t>(1, costs_.parallel_reads);
    const auto read_some = [&](int64_t first, int64_t count) {
      data::for_each_sample(count, at_once, [&](int64_t i) {
        std::vector<uint8_t> image(static_cast<size_t>(prepared_.train->image_bytes()));
        int64_t& index = indices[static_cast<size_t>(first + i)];
        try {
          prepared_.train->read(index, image);
        } catch (const data::BadImage&) {
          if (plan_.data.on_bad_sample == data::OnBadSample::fail) throw;
          index = kBad;
        }
      });
    };
    auto start = Clock::now();
    read_some(0, 1);
    costs_.first_read = seconds_since(start);
    start = Clock::now();
    int64_t done = 1;
    const auto size = static_cast<int64_t>(indices.size());
    while (done < size && seconds_since(start) < kSeconds) {
      check_stop();
      const int64_t count = std::min(at_once, size - done);
      read_some(done, count);
      done += count;
    }
    if (done > 1) costs_.first_read = seconds_since(start) / static_cast<double>(done - 1);
    indices.resize(static_cast<size_t>(done));
    std::erase(indices, kBad);
    if (indices.empty())
      throw Error(ErrorCode::corrupt_data, "none of the " + std::to_string(done) +
                                               " images that were tried for the forecast can be read");
    return indices;
  }

  // The work of the queue's thread for samples that are decoded in memory: augmenting them and copying them
  // into the mini-batch.
  void measure_copy(std::vector<int64_t> indices) {
    std::sort(indices.begin(), indices.end());
    const auto part =
        std::make_shared<const data::ImageSet>(prepared_.train->dataset().subset(indices),
                                               prepared_.train->format(), /*most_bytes=*/int64_t{1} << 62);
    data::MiniBatchQueue queue(part, {},
                               {.mini_batch_size = std::min(plan_.step.mini_batch_size, part->size()),
                                .shards = plan_.step.shards,
                                .order = {.seed = plan_.step.seed},
                                .augment = plan_.data.augment,
                                .cut_out = queue_cut(plan_.data),
                                .epochs = 1'000'000,
                                .read_ahead = 1,
                                .least_time_steps = plan_.data.least_time_steps,
                                .images_wanted = !plan_.network.keep_features});
    while (const auto batch = queue.next(stop_)) {
      if (batch->ends_epoch) break;
    }
    int64_t samples = 0;
    const auto start = Clock::now();
    while (seconds_since(start) < kSeconds / 2) {
      const auto batch = queue.next(stop_);
      if (!batch) break;
      samples += batch->global_count;
    }
    check_stop();
    costs_.copy = seconds_since(start) / static_cast<double>(std::max<int64_t>(1, samples));
  }

  void measure_alone() {
    comm::ThreadGroup group(1);
    group.run([&](Share) {
      at::set_num_threads(1);
      const std::unique_ptr<ShardRunner> runner = probe_.make_runner();
      if (plan_.network.keep_features) {
        const data::Shard group = made_up_shard(plan_, kFeaturesGroup);
        costs_.feature_sample =
            typical_seconds([&] { (void)runner->features(group.images).cpu(); }, kSeconds / 2) /
            static_cast<double>(kFeaturesGroup);
        shard_.input = runner->features(shard_.images).cpu();
      }
      probe_.train(*runner, shard_);
      const ShardResult timed = runner->train(shard_, shard_.count, /*step=*/0);
      if (timed.forward_seconds > 0)
        costs_.backward_share = timed.backward_seconds / (timed.forward_seconds + timed.backward_seconds);
    });
    check_stop();
  }

  // As many threads at once as in a step, all with the same shard.
  void measure_together(int64_t threads, int64_t shards) {
    comm::ThreadGroup group(threads);
    const std::unique_ptr<comm::Communicator> alone = comm::make_communicator();
    const Optimizer optimizer(rule_of(plan_.update), probe_.weights());
    Exchange exchange(group, *alone, probe_.weights(), optimizer,
                      {.compressor = make_gradient_compressor(plan_.exchange.kind, *alone, probe_.weights(),
                                                              plan_.exchange.powersgd_rank),
                       .gradient_clip = plan_.update.gradient_clip,
                       .overlap = false,
                       .agree = [] { return false; }});
    std::vector<double> shard_seconds(static_cast<size_t>(threads)),
        exchange_seconds(static_cast<size_t>(threads)), evaluate_seconds(static_cast<size_t>(threads));
    group.run([&](Share share) {
      at::set_num_threads(1);
      const auto place = static_cast<size_t>(share.rank);
      const std::unique_ptr<ShardRunner> runner = probe_.make_runner();
      probe_.train(*runner, shard_);
      group.barrier();
      const Range own = part_of(shards, share.size, share.rank);
      shard_seconds[place] = seconds_of_shard(*runner, own, shards);
      group.barrier();
      std::vector<double> ends;
      double adding = 0;
      for (int64_t round = 0; round < kExchangeRounds; ++round) {
        exchange.begin(share, own.count(), shards);
        const auto start = Clock::now();
        for (Range node{own.begin, own.begin}; node.begin < own.end; node.begin = node.end) {
          node.end = node.begin + together(*runner, {node.begin, own.end}, shards);
          exchange.take(share, node, runner->gradients());
        }
        if (round > 0) adding += seconds_since(start);
        group.barrier();  // the wait of threads that add less is not part of the exchange
        const auto added = Clock::now();
        group.barrier([&] { exchange.synchronize(shards); });
        exchange.step(share, shards, optimizer.rule_at(0, /*learning_rate=*/0));
        group.barrier();
        if (round > 0) ends.push_back(seconds_since(added));
      }
      shard_seconds[place] +=
          adding / static_cast<double>((kExchangeRounds - 1) * std::max<int64_t>(1, own.count()));
      std::sort(ends.begin(), ends.end());
      exchange_seconds[place] = ends[ends.size() / 4];
      group.barrier();
      evaluate_seconds[place] = evaluation_seconds(*runner, own.count());
    });
    check_stop();
    const auto [fast, slow] = std::minmax_element(shard_seconds.begin(), shard_seconds.end());
    costs_.slowest_over_fastest = std::max(costs_.slowest_over_fastest, *slow / *fast);
    fill_curve(costs_.shard, threads, mean_of(shard_seconds));
    fill_curve(costs_.exchange, threads, exchange_seconds.front());
    fill_curve(costs_.evaluate_sample, threads, mean_of(evaluate_seconds));
  }

  // How many of the shards `own` are computed first, as one batch.
  int64_t together(ShardRunner& runner, Range own, int64_t shards) const {
    return comm::node_from(own.begin, std::min(own.count(), runner.most_together(shard_.count)), shards)
        .count();
  }

  // For a worker that has the shards `own` and computes some of them together.
  double seconds_of_shard(ShardRunner& runner, Range own, int64_t shards) const {
    const int64_t count = together(runner, own, shards);
    if (count == 1) return typical_seconds([&] { probe_.train(runner, shard_); }, kSeconds);
    const data::Shard joined = made_up_shard(plan_, count * shard_.count);
    return typical_seconds([&] { probe_.train_together(runner, joined, count); }, kSeconds) /
           static_cast<double>(count);
  }

  // Of a sample, for a worker that has so many shards of a mini-batch.
  double evaluation_seconds(ShardRunner& runner, int64_t own) const {
    EvaluationBatches batches(runner, plan_, plan_.machine.device);
    const int64_t count = std::min(own, batches.most_shards(shard_.count));
    const data::Shard all = made_up_shard(plan_, count * shard_.count, shard_.images.size(-1));
    std::vector<data::Shard> shards;
    for (int64_t i = 0; i < count; ++i) {
      shards.push_back(part_of_shard(all, {i * shard_.count, (i + 1) * shard_.count}));
      shards.back().input = shard_.input;  // the outputs of frozen layers
    }
    runner.begin_evaluation();
    return typical_seconds([&] { probe_.evaluate(runner, batches, shards); }, kSeconds / 2) /
           static_cast<double>(all.count);
  }

  // Two factors of --powersgd-rank columns for each matrix; vectors are sent whole.
  int64_t powersgd_bytes() {
    int64_t numbers = 0;
    for (const ParameterSlot& slot : probe_.weights().slots()) {
      const int64_t rows = slot.shape.empty() ? 1 : slot.shape.front();
      const int64_t columns = slot.count / std::max<int64_t>(1, rows);
      numbers += slot.shape.size() < 2
                     ? slot.count
                     : std::min(slot.count, (rows + columns) * plan_.exchange.powersgd_rank);
    }
    return numbers * 4;
  }

  const Prepared& prepared_;
  const Plan& plan_;
  std::stop_token stop_;
  ShardProbe probe_;
  data::Shard shard_;
  StepCosts costs_;
};

}  // namespace

StepCosts measure_step(const Prepared& prepared, const std::vector<int64_t>& workers, std::stop_token stop) {
  return StepMeasurement(prepared, std::move(stop)).measure(workers);
}

}  // namespace lockstep::train
