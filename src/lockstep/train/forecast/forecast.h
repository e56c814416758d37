// What more workers would bring: a run's time for numbers of workers that nobody has to have, from what a
// shard, an exchange and a sample cost here.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/train/options/forecast_options.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/planning/prepare.h"

namespace lockstep::train {

/// Where the samples of an epoch come from.
enum class ReadFrom { decode, cache, memory };
constexpr std::array<const char*, 3> enum_names(ReadFrom) { return {"decode", "cache", "memory"}; }

/// What a run's parts cost on this machine. Seconds; curves over threads that work at once, the first entry
/// for one.
struct StepCosts {
  int64_t cores = 1;               ///< of this machine, for workers
  int64_t shard_samples = 0;       ///< of the shard that was measured
  std::vector<double> shard{};     ///< its forward and backward, and adding its gradients to the node
  double backward_share = 0.6;     ///< of that
  std::vector<double> exchange{};  ///< finishing the tree and updating the weights, once a step
  double evaluate_sample = 0;      ///< forward alone, one thread
  double feature_sample = 0;       ///< frozen layers that are computed once; 0: there are none
  ReadFrom first_from = ReadFrom::decode, later_from = ReadFrom::memory;
  double first_read = 0, later_read = 0;  ///< of a sample, on one core
  double copy = 0;             ///< of a sample that is decoded: augmented, and laid into the mini-batch
  int64_t parallel_reads = 0;  ///< above 0: reads wait for a store, so many at once; the two figures above
                               ///< are then a machine's, whatever its cores
  int64_t gradient_bytes = 0;  ///< of one sum of gradients as it travels
  double slowest_over_fastest = 1;  ///< workers of this machine at once, in seconds of a shard
};

/// Measures for some seconds, with samples of the run's own data. Throws what reading them throws, and
/// cancelled.
StepCosts measure_step(const Prepared& prepared, const std::vector<int64_t>& workers, std::stop_token stop);

/// Seconds unless said; of a step: on the worker that needs longest.
struct ForecastRow {
  int64_t workers = 1;
  int64_t machines = 1;
  bool elsewhere = false;  ///< it needs cores, GPUs or machines that were not measured
  bool assumed =
      false;  ///< that, or it rests on --worker-speeds or a mini-batch of another size than was measured
  int64_t mini_batch_size = 0;
  double read = 0;  ///< of a step's samples, in epochs after the first
  double compute = 0;
  double exchange = 0;  ///< what of it does not run beside backward
  double step = 0;
  double first_epoch = 0;  ///< with its validation, as the next
  double later_epoch = 0;
  double run = 0;
  double images_per_second = 0;  ///< of training, after the first epoch if there is one
  double speed_up = 1;           ///< over one worker, of that
  double efficiency = 1;         ///< speed-up / workers
  std::string bottleneck;        ///< decode, copy, compute or exchange
  std::string advice;            ///< what to change
};

struct Forecast {
  StepCosts costs;
  std::vector<ForecastRow> rows;
  std::vector<std::string> warnings;
};

/// The model: workers take shards as train::ShardQueue deals them, reading threads use what cores are left,
/// and a step lasts as long as the longest of reading, computing with exchange, and all work over all cores.
/// Cores beyond this machine's are taken to be like its own, with memory that is no faster for all of them
/// together. Throws invalid_option for averaging mode, whose replicas follow the workers.
Forecast make_forecast(const Plan& plan, const StepCosts& costs, const ForecastOptions& asked);

Json to_json(const Forecast& forecast);

}  // namespace lockstep::train
