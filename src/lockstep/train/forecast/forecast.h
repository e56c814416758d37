// The expected time of a run with other numbers of workers, computed from the measured times of a shard, an
// exchange and a sample. The workers need not exist.
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

/// The measured times of the parts of a run on this machine, in seconds. A curve has an entry for each number
/// of threads that work at the same time, from one on.
struct StepCosts {
  int64_t cores = 1;                      ///< of this machine, for workers
  int64_t shard_samples = 0;              ///< of the shard that was measured
  std::vector<double> shard{};            ///< forward, backward, and adding the gradients to the tree's node
  double backward_share = 0.6;            ///< the part of forward and backward that backward takes
  std::vector<double> exchange{};         ///< finishing the tree and updating the weights, once per step
  std::vector<double> evaluate_sample{};  ///< forward only, on one of these threads
  double feature_sample = 0;              ///< the frozen layers whose outputs are kept; 0: none
  ReadFrom first_from = ReadFrom::decode, later_from = ReadFrom::memory;
  double first_read = 0, later_read = 0;  ///< of a sample, on one core
  double copy = 0;             ///< of a decoded sample: augmenting it and copying it into the mini-batch
  int64_t parallel_reads = 0;  ///< above 0: the number of reads that wait for a store at the same time;
                               ///< first_read and later_read are then per machine, for any number of cores
  int64_t gradient_bytes = 0;  ///< of one sum of gradients, as it is sent
  double slowest_over_fastest = 1;  ///< ratio of a shard's time, among workers of this machine at once
};

/// Measures for several seconds, with samples of the run's data. Throws what reading them throws; cancelled
/// at a stop.
StepCosts measure_step(const Prepared& prepared, const std::vector<int64_t>& workers, std::stop_token stop);

/// Times are in seconds; those of a step are of the slowest worker.
struct ForecastRow {
  int64_t workers = 1;
  int64_t machines = 1;
  bool elsewhere = false;  ///< needs cores, GPUs or machines that were not measured
  bool assumed = false;    ///< `elsewhere`, or depends on --worker-speeds or on a mini-batch of another size
  int64_t mini_batch_size = 0;
  double read = 0;  ///< the samples of a step, in epochs after the first
  double compute = 0;
  double exchange = 0;  ///< the part that backward does not hide
  double step = 0;
  double first_epoch = 0;  ///< including its validations
  double later_epoch = 0;  ///< including its validations
  double run = 0;
  double images_per_second = 0;  ///< in training; after the first epoch if there are several
  double speed_up = 1;           ///< of images_per_second, over one worker
  double efficiency = 1;         ///< speed-up / workers
  std::string bottleneck;        ///< decode, copy, compute or exchange
  std::string advice;            ///< what makes it faster
};

struct Forecast {
  StepCosts costs;
  std::vector<ForecastRow> rows;
  std::vector<std::string> warnings;
};

/// The model: workers take shards as train::ShardQueue hands them out, and reading threads use the remaining
/// cores. A step takes the longest of three times: reading; computing plus exchange; and all work divided by
/// all cores. Cores beyond those of this machine are assumed to be like its own, with the same total memory
/// bandwidth. Throws invalid_option for averaging mode, where the number of replicas depends on the workers.
Forecast make_forecast(const Plan& plan, const StepCosts& costs, const ForecastOptions& asked);

Json to_json(const Forecast& forecast);

}  // namespace lockstep::train
