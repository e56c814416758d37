// What a run will do: every option resolved, with the reason. The plan is made once, printed by
// `lockstep plan` and kept in the manifest. Later rooms take its parts; none of them takes Options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/base/json.h"
#include "lockstep/data/image_set.h"
#include "lockstep/data/order.h"
#include "lockstep/data/transform.h"
#include "lockstep/nn/network.h"
#include "lockstep/train/options/options.h"

namespace lockstep::train {

/// An option that the recipe has set, with its value as text.
struct RecipeValue {
  std::string option;
  std::string value;
  std::string reason;

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("option", self.option);
    field("value", self.value);
    field("reason", self.reason);
  };
};

/// The recipe by which options that were not given were chosen (planning/recipe.h). A resume takes its values
/// from here.
struct RecipePlan {
  Recipe kind = Recipe::plain;
  std::vector<RecipeValue> values;  ///< of auto_

  /// Null where the recipe left the option alone.
  const RecipeValue* find(std::string_view option) const;

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("recipe", self.kind);
    field("recipe_values", self.values);
  };
};

/// The network, the part of it that is trained, and its first weights.
struct NetworkPlan {
  std::string name;
  nn::NetworkInput input;
  int64_t parameter_count = 0;
  int64_t learned_count = 0;                ///< of these, the ones that are not frozen
  std::string weights;                      ///< file with the first weights; empty: random ones
  std::vector<std::string> freeze;          ///< patterns of layers
  std::string learning_rate_factors;        ///< as in --learning-rate-factors
  std::vector<std::string> fresh_layers;    ///< of --head new
  std::vector<std::string> dropped_layers;  ///< layers of the file's network that this one lacks
  int64_t frozen_layers = 0;      ///< number of first layers whose output for an image never changes
                                  ///< (nn::frozen_layers)
  bool keep_features = false;     ///< their output is computed once and kept
  bool features_on_disk = false;  ///< in files only, because it does not fit in memory
  bool module_together = false;   ///< a user's module whose small shards are computed together; false in the
                                  ///< files of runs that began before there was such a thing
  std::string module_apart;       ///< why not, as why_shards_alone() says it; in no file
  bool sums_shards = false;       ///< the gradients of several shards are summed in one kernel
                                  ///< (layers_keep_apart, module_together); in no file, because a resumed
                                  ///< run keeps its shards
  int64_t batch_norms = 0;        ///< that are not frozen; in no file

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("network", self.name);
    field("channels", self.input.channels);
    field("height", self.input.height);
    field("width", self.input.width);
    field("time_steps", self.input.time_steps);
    field("labels_steps", self.input.labels_time_steps);
    field("parameters", self.parameter_count);
    field("learned", self.learned_count);
    field("weights", self.weights);
    field("freeze", self.freeze);
    field("learning_rate_factors", self.learning_rate_factors);
    field("fresh_layers", self.fresh_layers);
    field("dropped_layers", self.dropped_layers);
    field("frozen_layers", self.frozen_layers);
    field("keep_features", self.keep_features);
    field("features_on_disk", self.features_on_disk);
    field("module_together", self.module_together);
  };
};

/// The samples, and what is done to them before the network sees them.
struct DataPlan {
  data::ImageFormat format;
  std::vector<int64_t> resize_to;  ///< height and width that images are fitted to before the size of
                                   ///< `format` is cut out of their centre (training images: see queue_cut);
                                   ///< empty: images are fitted to `format`
  std::vector<double> mean;        ///< of pixels / 255, per channel; empty: none
  std::vector<double> deviation;
  data::Augment augment;
  int64_t least_time_steps = 0;  ///< that a mini-batch of sequences is padded to
  data::OnBadSample on_bad_sample = data::OnBadSample::fail;
  std::vector<std::string> classes;
  std::vector<int64_t> class_counts;  ///< training samples of each class, or labelled time steps; empty where
                                      ///< streamed
  std::vector<double> class_weights;  ///< in the training loss; empty: all are equal
  int64_t train_count = 0;            ///< 0 where streamed
  bool streamed = false;  ///< one pass over mini-batches that a program gives (TrainingRequest::stream),
                          ///< which ends the run
  int64_t validation_count = 0;
  int64_t test_count = 0;
  std::string listing_hash;           ///< of the training images, before the split; hexadecimal
  std::string held_out_listing_hash;  ///< of held-out images that are not split off; else of none

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("resize", self.format.resize);
    field("padding", self.format.padding);
    field("decode", self.format.decode);
    field("resize_to", self.resize_to);
    field("mean", self.mean);
    field("deviation", self.deviation);
    field("augment", self.augment);
    field("least_time_steps", self.least_time_steps);
    field("on_bad_sample", self.on_bad_sample);
    field("classes", self.classes);
    field("class_counts", self.class_counts);
    field("class_weights", self.class_weights);
    field("train_count", self.train_count);
    field("streamed", self.streamed);
    field("validation_count", self.validation_count);
    field("test_count", self.test_count);
    field("listing_hash", self.listing_hash);
    field("held_out_listing_hash", self.held_out_listing_hash);
  };
};

/// One step: its samples, how they are cut into shards, and the arithmetic.
struct StepPlan {
  int64_t mini_batch_size = 128;     ///< samples, after scaling with workers; in averaging mode over all
                                     ///< replicas; of sequences in pieces the slots
  int64_t shards = 8;                ///< in averaging mode replicas
  bool scales_with_workers = false;  ///< both, with --scale-with-workers
  int64_t batch_norm_group = 0;      ///< samples over which a batch norm normalises at most; 0: a shard
  int64_t accumulate = 1;            ///< pieces of a shard
  OutOfMemory out_of_memory = OutOfMemory::error;
  Precision precision = Precision::single;  ///< never auto_
  Kernels kernels = Kernels::auto_;
  BatchNormStart batch_norm_start = BatchNormStart::pytorch;
  int64_t seed = 0;
  data::Shuffle shuffle = data::Shuffle::every_epoch;
  int64_t sampler_replicas = 0;  ///< of --sample-order distributed-sampler: workers when the run began, in
                                 ///< averaging mode replicas; 0: no such order
  int64_t tbptt_length = 0;      ///< above 0: sequences in pieces of this number of time steps, in unchanged
                                 ///< order, with the recurrent state carried on

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("mini_batch_size", self.mini_batch_size);
    field("shards", self.shards);
    field("scales_with_workers", self.scales_with_workers);
    field("batch_norm_group", self.batch_norm_group);
    field("accumulate", self.accumulate);
    field("out_of_memory", self.out_of_memory);
    field("precision", self.precision);
    field("kernels", self.kernels);
    field("batch_norm_start", self.batch_norm_start);
    field("seed", self.seed);
    field("shuffle", self.shuffle);
    field("sampler_replicas", self.sampler_replicas);
    field("tbptt_length", self.tbptt_length);
  };
};

/// The optimizer and its learning rate.
struct UpdatePlan {
  OptimizerKind optimizer = OptimizerKind::sgdm;
  double momentum = 0.9;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double alpha = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 1e-4;
  double gradient_clip = 0;      ///< 0: none
  double learning_rate = 0.01;   ///< after scaling with workers; with a test of rates the middle one
  int64_t rate_test_steps = 0;   ///< first steps that find the learning rate (update/rate_test.h); 0: none
  double label_smoothing = 0;    ///< in the training loss
  bool may_start_again = false;  ///< with a tenth of the rate, if the loss explodes: the rate was not given
  ScheduleKind lr_schedule = ScheduleKind::cosine;
  double lr_drop_factor = 0.1;
  int64_t lr_drop_period = 10;  ///< epochs
  int64_t warmup_steps = 0;
  int64_t head_steps = 0;  ///< in which only fresh layers learn

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("optimizer", self.optimizer);
    field("momentum", self.momentum);
    field("nesterov", self.nesterov);
    field("beta1", self.beta1);
    field("beta2", self.beta2);
    field("alpha", self.alpha);
    field("epsilon", self.epsilon);
    field("weight_decay", self.weight_decay);
    field("gradient_clip", self.gradient_clip);
    field("learning_rate", self.learning_rate);
    field("rate_test_steps", self.rate_test_steps);
    field("label_smoothing", self.label_smoothing);
    field("may_start_again", self.may_start_again);
    field("lr_schedule", self.lr_schedule);
    field("lr_drop_factor", self.lr_drop_factor);
    field("lr_drop_period", self.lr_drop_period);
    field("warmup_steps", self.warmup_steps);
    field("head_steps", self.head_steps);
  };
};

/// How the results of workers become one network.
struct ExchangePlan {
  ExchangeKind kind = ExchangeKind::tree;
  bool overlap = true;  ///< gradients go to other ranks while backward computes others
  int64_t powersgd_rank = 4;
  int64_t averaging_frequency = 1;  ///< steps; this and the members below are for averaging mode
  int64_t averaging_warmup_steps = 0;
  bool average_updaters = true;
  OuterOptimizer outer_optimizer = OuterOptimizer::none;
  double outer_learning_rate = 0.7;
  double outer_momentum = 0.9;

  bool averages() const { return kind == ExchangeKind::average; }

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("exchange", self.kind);
    field("overlap", self.overlap);
    field("powersgd_rank", self.powersgd_rank);
    field("averaging_frequency", self.averaging_frequency);
    field("averaging_warmup_steps", self.averaging_warmup_steps);
    field("average_updaters", self.average_updaters);
    field("outer_optimizer", self.outer_optimizer);
    field("outer_learning_rate", self.outer_learning_rate);
    field("outer_momentum", self.outer_momentum);
  };
};

/// When the run ends, and when it is validated.
struct LengthPlan {
  int64_t max_epochs = 8;
  int64_t max_steps = 0;         ///< 0: no limit of its own
  double max_time = 0;           ///< seconds; 0: no limit
  int64_t pause_after_step = 0;  ///< stops there with a checkpoint; 0: never
  int64_t first_step = 0;        ///< steps of earlier calls of fit in the same training
                                 ///< (TrainingRequest::standing)
  int64_t first_epoch = 0;       ///< passes over the data in those calls
  int64_t total_steps = 0;       ///< first_step and max_epochs * steps_per_epoch, or max_steps when that is
                                 ///< smaller; 0: not known, see DataPlan::streamed
  int64_t schedule_steps = 0;    ///< over which the learning rate's cosine falls: total_steps, or max_steps
                                 ///< where further calls of fit may follow
  int64_t steps_per_epoch = 0;   ///< 0: not known
  int64_t validate_every = 0;    ///< steps
  int64_t patience = 0;          ///< validations without a better accuracy that end the run; 0: none do
  int64_t patience_from = 0;     ///< step after which they are counted

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("max_epochs", self.max_epochs);
    field("max_steps", self.max_steps);
    field("max_time", self.max_time);
    field("pause_after_step", self.pause_after_step);
    field("first_step", self.first_step);
    field("first_epoch", self.first_epoch);
    field("total_steps", self.total_steps);
    field("schedule_steps", self.schedule_steps);
    field("steps_per_epoch", self.steps_per_epoch);
    field("validate_every", self.validate_every);
    field("patience", self.patience);
    field("patience_from", self.patience_from);
  };
};

/// What is recorded during the run.
struct RecordPlan {
  int64_t checkpoint_every = 0;  ///< steps
  int64_t hash_every = 0;        ///< steps
  bool report_averages = false;  ///< each average's score and time
  bool detect_anomaly = false;   ///< AnomalyWatch

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("checkpoint_every", self.checkpoint_every);
    field("hash_every", self.hash_every);
    field("report_averages", self.report_averages);
    field("detect_anomaly", self.detect_anomaly);
  };
};

/// Where the run computes. Nothing here affects the weights; the fingerprint says whether their bits can be
/// compared.
struct MachinePlan {
  std::string device = "cpu";            ///< "cpu" or "cuda"
  std::vector<int64_t> devices;          ///< the GPUs of this process; empty on a CPU
  int64_t gpu = -1;                      ///< of these, this rank's
  int64_t workers = 1;                   ///< of all ranks
  std::vector<int64_t> rank_loads = {};  ///< of the shards (Deal::loads)
  int64_t cores = 1;                     ///< allowed by affinity and control group
  int64_t read_ahead = 4;                ///< steps whose samples are read ahead
  bool keep_images = true;
  bool cached_images =
      false;              ///< decoded training images are on disk, from the second epoch on at the latest
  bool resident = false;  ///< training and held-out images are in the memory of this rank's GPU
  bool resident_required = false;  ///< the run fails if there is no memory for them
  bool cuda_graphs = false;        ///< shards are recorded and replayed
  bool side_by_side = false;       ///< several recorded shards at the same time
  std::string fingerprint;         ///< arithmetic: instruction set, libraries, build

  /// How shards are dealt, of this number of ranks.
  Deal deal(int64_t ranks) const { return {ranks, workers, rank_loads}; }

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("device", self.device);
    field("devices", self.devices);
    field("gpu", self.gpu);
    field("workers", self.workers);
    field("rank_loads", self.rank_loads);
    field("cores", self.cores);
    field("read_ahead", self.read_ahead);
    field("keep_images", self.keep_images);
    field("cached_images", self.cached_images);
    field("resident", self.resident);
    field("resident_required", self.resident_required);
    field("cuda_graphs", self.cuda_graphs);
    field("side_by_side", self.side_by_side);
    field("fingerprint", self.fingerprint);
  };
};

/// One line of `lockstep plan`: a value and the reason for it.
struct PlanLine {
  std::string name;
  std::string value;
  std::string reason;

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("name", self.name);
    field("value", self.value);
    field("reason", self.reason);
  };
};

/// Resolved values. Those that affect the weights do not depend on the machine. No two parts have a field of
/// the same name.
struct Plan {
  RecipePlan recipe;
  NetworkPlan network;
  DataPlan data;
  StepPlan step;
  UpdatePlan update;
  ExchangePlan exchange;
  LengthPlan length;
  RecordPlan record;
  MachinePlan machine;
  std::vector<std::string> warnings;  ///< what a user should change before a long run, a sentence each
  std::vector<PlanLine> lines;        ///< all values for people, in order

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("recipe", self.recipe);
    field("network", self.network);
    field("data", self.data);
    field("step", self.step);
    field("update", self.update);
    field("exchange", self.exchange);
    field("length", self.length);
    field("record", self.record);
    field("machine", self.machine);
    field("warnings", self.warnings);
    field("lines", self.lines);
  };
};

/// The order of the training samples.
data::Order sample_order(const StepPlan& step);

/// {height, width} of the part that the queue cuts out of each training image (data::QueueOptions::cut_out)
/// if the augmentation chooses the part; training images then have the size of resize_to. Empty: training
/// images have the size of `format`, as all other images always do.
std::vector<int64_t> queue_cut(const DataPlan& data);

/// The format of samples that a network takes; resizing, padding and decoding have their defaults.
data::ImageFormat format_of(const nn::NetworkInput& input);

/// The values of all parts in one object, without the lines: the event `plan` and `lockstep plan --json`.
Json values_of(const Plan& plan);

/// Reads what to_json wrote. Throws invalid_option for anything else.
Plan read_plan(const Json& json);

/// Reads a plan of a manifest of format 1: one object without the values that were added later, some of
/// which are taken from `options`. Throws like read_plan.
Plan read_flat_plan(const Json& json, const Options& options);

}  // namespace lockstep::train
