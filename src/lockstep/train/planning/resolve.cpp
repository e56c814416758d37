#include "lockstep/train/planning/resolve.h"

#include <algorithm>

#include "lockstep/base/share.h"
#include "lockstep/train/options/run_length.h"
#include "lockstep/train/update/rate_test.h"

namespace lockstep::train {
namespace {

constexpr int64_t kReadAhead = 4;           // mini-batches
constexpr int64_t kReplicasReadAhead = 16;  // mini-batches of all replicas, ParallelWrapper's default

// Recurrent networks have no batch norm and learn too slowly at the rate for images. A new head has the
// factor 10 (step/learning.h): with a tenth of the rate it learns at the usual rate, and trained layers at a
// tenth of it.
double default_learning_rate(const Options& options, data::SampleKind samples) {
  const double share = options.head == Head::new_ ? 0.1 : 1;
  if (options.optimizer != OptimizerKind::sgdm) return share * 0.001;
  return share * (samples == data::SampleKind::sequence ? 0.1 : 0.01);
}

// While the rate is high, and where few samples are held out, accuracies rise and fall by chance. Validations
// count when a cosine has fallen to a tenth, and as many as score two thousand samples.
void judge_late(LengthPlan& length, const Options& options, const DataPlan& data) {
  constexpr double kShareOfSteps = 0.795;  // arccos(2 * 0.1 - 1) / pi
  constexpr int64_t kSamples = 2000, kMostValidations = 20;
  if (options.lr_schedule == ScheduleKind::cosine)
    length.patience_from = static_cast<int64_t>(kShareOfSteps * static_cast<double>(length.total_steps));
  if (data.validation_count > 0)
    length.patience =
        std::max(length.patience, std::min(kMostValidations, divided_up(kSamples, data.validation_count)));
}

}  // namespace

DataPlan resolve_data(const Options& options) {
  DataPlan data;
  data.augment = data::Augment::parse(options.augment);
  data.least_time_steps = options.sequence_length;
  data.on_bad_sample = options.on_bad_sample;
  return data;
}

StepPlan resolve_step(const Options& options) {
  StepPlan step;
  step.scales_with_workers = options.scale_with_workers != ScaleWithWorkers::none;
  step.accumulate = options.accumulate;
  step.out_of_memory = options.out_of_memory;
  step.precision = options.precision == Precision::auto_ ? Precision::single : options.precision;
  step.kernels = options.kernels;
  step.batch_norm_start = options.batch_norm_start;
  step.seed = options.seed;
  step.shuffle = options.shuffle;
  return step;
}

UpdatePlan resolve_update(const Options& options, data::SampleKind samples) {
  const double momentum = options.optimizer == OptimizerKind::sgdm ? 0.9 : 0.0;
  const double decay = options.optimizer == OptimizerKind::adamw ? 0.01 : 1e-4;
  return {.optimizer = options.optimizer,
          .momentum = options.momentum >= 0 ? options.momentum : momentum,
          .nesterov = options.nesterov,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .alpha = options.alpha,
          .epsilon = options.epsilon,
          .weight_decay = options.weight_decay >= 0 ? options.weight_decay : decay,
          .gradient_clip = options.gradient_clip,
          .learning_rate = options.learning_rate > 0 ? static_cast<double>(options.learning_rate)
                                                     : default_learning_rate(options, samples),
          .label_smoothing = options.label_smoothing,
          .lr_schedule = options.lr_schedule,
          .lr_drop_factor = options.lr_drop_factor,
          .lr_drop_period = options.lr_drop_period,
          .warmup_steps = options.warmup_steps};
}

ExchangePlan resolve_exchange(const Options& options) {
  return {.kind = options.exchange,
          .overlap = options.overlap && options.exchange == ExchangeKind::tree &&
                     options.out_of_memory == OutOfMemory::error,
          .powersgd_rank = options.powersgd_rank,
          .averaging_frequency = options.averaging_frequency,
          .averaging_warmup_steps = options.averaging_warmup_steps,
          .average_updaters = options.average_updaters,
          .outer_optimizer = options.outer_optimizer,
          .outer_learning_rate = options.outer_learning_rate,
          .outer_momentum = options.outer_momentum};
}

int64_t resolve_read_ahead(const Options& options) {
  if (options.prefetch > 0) return options.prefetch;
  return options.exchange == ExchangeKind::average ? kReplicasReadAhead : kReadAhead;
}

LengthPlan resolve_length(const Options& options, const DataPlan& data, const StepPlan& step,
                          int64_t mini_batches) {
  LengthPlan length;
  length.steps_per_epoch =
      data.streamed
          ? divided_up(mini_batches, step.shards)
          : data::steps_per_epoch(sample_order(step).epoch_size(data.train_count), step.mini_batch_size);
  length.max_epochs = data.streamed ? 1 : options.max_epochs;
  if (length.max_epochs == 0)
    length.max_epochs = options.max_steps > 0 ? divided_up(options.max_steps, length.steps_per_epoch)
                                              : default_epochs(length.steps_per_epoch);
  length.max_steps = options.max_steps;
  length.max_time = options.max_time;
  length.pause_after_step = options.pause_after_step;
  length.total_steps = total_steps(length.max_epochs, length.steps_per_epoch, length.max_steps);
  length.schedule_steps = length.total_steps;
  length.validate_every = options.validate_every > 0 ? options.validate_every : length.steps_per_epoch;
  length.patience = options.patience >= 0 ? options.patience
                                          : default_patience(std::max<int64_t>(1, length.validate_every));
  if (options.recipe == Recipe::auto_ && options.patience < 0) judge_late(length, options, data);
  return length;
}

int64_t resolve_rate_test(const Options& options, const LengthPlan& length) {
  return options.learning_rate.is_auto() ? rate_test_steps(length.total_steps) : 0;
}

RecordPlan resolve_record(const Options& options, int64_t steps_per_epoch) {
  return {.checkpoint_every = options.checkpoint_every > 0 ? options.checkpoint_every : steps_per_epoch,
          .hash_every = options.hash_every > 0 ? options.hash_every : steps_per_epoch,
          .report_averages = options.report_score_after_averaging,
          .detect_anomaly = options.detect_anomaly};
}

}  // namespace lockstep::train
