// What a user may ask of a training run. Each option is described here once: its name, what it affects, its
// help and its limits. Command line, --config files, help, docs/options.md, manifests and the rule of what
// may change at a resume are made from this. What is left open (auto, 0) is filled in by the plan.
// Long because each option has a member and a described line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/data/order.h"
#include "lockstep/data/image_set.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/transform.h"
#include "lockstep/nn/trained_weights.h"
#include "lockstep/train/options/batch_norm_group.h"
#include "lockstep/train/options/choices.h"
#include "lockstep/train/options/learning_rate.h"
#include "lockstep/train/options/limits.h"
#include "lockstep/train/options/mini_batch_size.h"

namespace lockstep::train {

/// Options as a user gave them; see Plan for the resolved values.
// Every member has an initialiser, so that a call that names a few of them compiles without a warning.
struct Options {
  // Recipe
  Recipe recipe = Recipe::auto_;
  double budget = 0;

  // Network
  std::string network = "auto";
  std::string weights{};
  std::string pretrained{};
  std::string image_size = "auto";
  data::Resize resize = data::Resize::stretch;
  std::string resize_to{};
  Color color = Color::auto_;
  data::Decode decode = data::Decode::exact;
  std::string normalize = "auto";

  // Transfer learning
  Head head = Head::keep;
  int64_t drop_layers = 0;
  std::string new_layers{};
  std::string freeze{};
  int64_t unfreeze_after = 0;
  std::string learning_rate_factors{};
  KeepFeatures keep_features = KeepFeatures::auto_;

  // Data
  std::string validation{};
  std::string test{};
  double validation_split = 0.1;
  int64_t validation_count_per_class = 0;
  int64_t validation_folds = 0;
  int64_t fold = 0;
  data::Labels labels = data::Labels::folder;
  ClassWeights class_weights = ClassWeights::none;
  std::string augment = "none";
  data::Shuffle shuffle = data::Shuffle::every_epoch;
  data::SampleOrder sample_order = data::SampleOrder::lockstep;
  data::OnBadSample on_bad_sample = data::OnBadSample::fail;
  double memory_share = 0.5;
  std::string cache = "auto";
  double cache_size = 20;

  // Sequences
  data::PaddingSide sequence_padding = data::PaddingSide::right;
  int64_t sequence_length = 0;
  int64_t tbptt_length = 0;
  bool sort_by_length = false;

  // Where it runs
  Execution execution = Execution::auto_;
  int64_t workers = 0;
  int64_t shards = 0;
  BatchNormGroup batch_norm_group{};
  std::vector<int64_t> devices{};
  std::vector<int64_t> worker_load{};
  ScaleWithWorkers scale_with_workers = ScaleWithWorkers::none;
  int64_t prefetch = 0;
  Resident resident = Resident::auto_;
  Recording cuda_graphs = Recording::auto_;

  // Arithmetic
  Precision precision = Precision::single;
  Isa isa = Isa::auto_;
  Kernels kernels = Kernels::auto_;

  // Exchange between workers
  ExchangeKind exchange = ExchangeKind::tree;
  bool overlap = true;
  int64_t powersgd_rank = 4;

  // Averaging mode
  int64_t averaging_frequency = 1;
  int64_t averaging_warmup_steps = 0;
  bool average_updaters = true;
  OuterOptimizer outer_optimizer = OuterOptimizer::none;
  double outer_learning_rate = 0.7;
  double outer_momentum = 0.9;
  bool report_score_after_averaging = false;

  // How long
  MiniBatchSize mini_batch_size = 128;
  int64_t max_epochs = 0;
  int64_t max_steps = 0;
  double limit_batches = 0;
  bool fast_dev_run = false;
  double max_time = 0;
  int64_t pause_after_step = 0;
  int64_t validate_every = 0;
  int64_t patience = -1;

  // Optimizer
  OptimizerKind optimizer = OptimizerKind::sgdm;
  LearningRate learning_rate{};
  double label_smoothing = 0;
  ScheduleKind lr_schedule = ScheduleKind::cosine;
  double lr_drop_factor = 0.1;
  int64_t lr_drop_period = 10;
  int64_t warmup_steps = 0;
  double momentum = -1;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double alpha = 0.99;
  double epsilon = 1e-8;
  double weight_decay = -1;
  double gradient_clip = 0;
  BatchNormStart batch_norm_start = BatchNormStart::pytorch;
  int64_t accumulate = 1;
  OutOfMemory out_of_memory = OutOfMemory::error;
  int64_t seed = 0;

  // The run
  std::string output{};
  bool resume = false;
  int64_t checkpoint_every = 0;
  int64_t hash_every = 0;
  bool detect_anomaly = false;
  bool plot = false;
  bool timing = false;
  bool verbose = false;

  static constexpr auto describe = [](auto& self, auto&& field) {
    using enum Affects;
    field("Recipe");
    field("recipe", self.recipe, weights,
          "auto: values that are not given are chosen together, to suit the data: network, optimizer, "
          "learning rate, augmentation, mini-batch, epochs and others; lockstep plan shows each with its "
          "reason; plain: they have the defaults below, whatever the data are");
    field("budget", self.budget, weights,
          "minutes that the recipe may use, at 200 GFLOP/s, about two cores of an AMD EPYC of 2024, also on "
          "machines that are faster or slower, so that the weights do not depend on the machine; 0: no limit",
          between(0, 1e6));
    field("Network");
    field("network", self.network, weights,
          "name of a built-in network, or a layer graph NAME.json; auto: digits_cnn for small grey images, "
          "mlp for tiny ones, resnet18 for other images, lstm_classifier for sequences, and with --recipe "
          "auto resnet9 for small or few photographs, resnet9_small for few drawings and small grey images "
          "with "
          "many tones, conv_classifier for sequences with one class each");
    field("weights", self.weights, weights,
          "start from the weights in this file instead of random ones: safetensors, or a state dict saved by "
          "torch.save");
    field(
        "pretrained", self.pretrained, weights,
        "start from the weights of this network that torchvision publishes, trained on ImageNet, with their "
        "image size, cut, colours and normalisation, and with a new last layer (--head new) for other "
        "classes; alone: of --network, or of resnet18; lockstep weights list shows all",
        or_alone("auto", nn::has_trained_weights));
    field("image-size", self.image_size, weights,
          "HxW of the network's input, e.g. 28x28; auto: the size of the images if they all have one size, "
          "else their typical size up to 64x64, and 224x224 for larger ones; the recipe of train makes fewer "
          "than 10,000 larger ones 96x96, drawings 32x32, and more than that 224x224 at most, unless they "
          "start "
          "from trained weights");
    field(
        "resize", self.resize, weights,
        "how images of another size are fitted: stretched, cropped around the centre, or padded with zeros");
    field("resize-to", self.resize_to, weights,
          "HxW: first fit the images to this size, then cut --image-size out of the centre, or out of a "
          "random place with --augment random-crop; empty: fit them to --image-size");
    field("color", self.color, weights,
          "colours of the network's input; auto: grey if no image has colours, whatever its file's format, "
          "else rgb");
    field("decode", self.decode, weights,
          "how JPEG photographs are decoded; exact: as Pillow does; fast: at 1/2, 1/4 or 1/8 of the size if "
          "the network's input is that much smaller, with colours resized before they are converted; gpu: by "
          "nvJPEG on the GPUs of the run, at full size, only for files that you trust");
    field("normalize", self.normalize, weights,
          "subtract M and divide by S, after pixels are divided by 255 (sequences are not); none; mean-std: "
          "mean and deviation of the training data; imagenet: torchvision's values; or M,S as numbers or "
          "fractions (123/255), with a pair for each channel if they differ (M,S,M,S,M,S); auto: none, or "
          "what the weights to start from were trained with, which must be given if their file is not known");
    field("Transfer learning");
    field("head", self.head, weights,
          "new: replace the last layer by one with random weights for the classes of the data; all other "
          "layers come from --weights");
    field("drop-layers", self.drop_layers, weights,
          "with --head new: number of layers to remove from the end; a new linear layer replaces them",
          between(0, 1e4));
    field("new-layers", self.new_layers, weights,
          "with --head new: layers that get random weights, instead of the last one: comma-separated names, "
          "* stands for any text; layers that only the file of --weights has are left out");
    field(
        "freeze", self.freeze, weights,
        "layers whose weights do not change: comma-separated names, * stands for any text, e.g. features.*");
    field("unfreeze-after", self.unfreeze_after, weights,
          "with --head new: epochs at the beginning in which only the new layers learn; all learn after them",
          between(0, kMostEpochs));
    field("learning-rate-factors", self.learning_rate_factors, weights,
          "PATTERN=FACTOR,...: multiply the learning rate of these layers or learnables; the last pattern "
          "that matches counts; a new head has 10 for weights and 20 for biases");
    field("keep-features", self.keep_features, weights,
          "compute the outputs of frozen first layers once for each image and keep them; auto: if no "
          "augmentation changes the images, in memory as far as --memory-share allows and in files (--cache) "
          "for later runs; always: also if they take more memory; never: compute them in every step");
    field("Data");
    field("validation", self.validation, weights, "folder with validation data, instead of a split");
    field("test", self.test, record, "folder with test data, scored once at the end");
    field("validation-split", self.validation_split, weights,
          "share of each label that is held out for validation if there is no --validation", between(0, 0.9));
    field("validation-count-per-class", self.validation_count_per_class, weights,
          "number of samples of each class that are held out, instead of the share of --validation-split; 0: "
          "that share",
          between(0, kMostSamples));
    field(
        "validation-folds", self.validation_folds, weights,
        "number of runs of a cross-validation; each holds out another of so many equal parts of the samples, "
        "with the classes as evenly in each part as in scikit-learn's StratifiedKFold; the mean and the "
        "deviation of their accuracies are printed; 0: one run",
        between(0, kMostFolds));
    field("fold", self.fold, weights,
          "with --validation-folds: train only the run that holds out this part, from 1; 0: all of them, one "
          "after the other",
          between(0, kMostFolds));
    field("labels", self.labels, weights,
          "label of an image: the folder that directly contains it, or (top) the first folder below FOLDER");
    field(
        "class-weights", self.class_weights, weights,
        "weights of the classes in the training loss; balanced: samples / (classes * samples of the class), "
        "as in scikit-learn; the loss is the weighted mean over the mini-batch, as in PyTorch's "
        "CrossEntropyLoss(weight=...). Losses of validation and test are not weighted");
    field("augment", self.augment, weights,
          "random changes of training images, with torchvision's names: none, or a comma-separated list of "
          "random-resized-crop[=LEAST] or random-crop (out of the larger images of --resize-to, which "
          "random-crop needs), flip, flip-vertical, shift[=PIXELS], rotation[=DEGREES], shear[=DEGREES], "
          "scale[=LEAST/MOST], trivial-augment-wide, color-jitter[=B/C/S/H], "
          "random-erasing[=SHARE], mixup[=ALPHA]");
    field("shuffle", self.shuffle, weights, "when the samples are put into a new random order");
    field("sample-order", self.sample_order, weights,
          "random order of the samples; lockstep: Lockstep's own; distributed-sampler: that of PyTorch's "
          "DistributedSampler, whose replicas are the workers (in averaging mode the replicas) at the start "
          "of the run, so their number affects the weights");
    field("on-bad-sample", self.on_bad_sample, weights,
          "what to do with an unreadable image: end the run, or skip, report and count it; a class without a "
          "readable image ends the run");
    field("memory-share", self.memory_share, place,
          "maximum share of the machine's memory for decoded images; if they take more, every epoch decodes "
          "them again or reads them from a cache on disk (--cache)",
          between(0, 1));
    field("cache", self.cache, place,
          "cache of decoded images on disk; off: none; auto: the one that lockstep cache made (in the data's "
          "folder; for archives and object stores in ~/.cache/lockstep/images) if it matches the images, or "
          "one that the run makes in ~/.cache/lockstep/images if every epoch would decode the images again; "
          "or a folder: one that the run makes there");
    field("cache-size", self.cache_size, place,
          "maximum gigabytes for the cache of one folder, and for all files in ~/.cache/lockstep/images: a "
          "run that adds a cache there removes the ones used least recently",
          between(0, 1e9));
    field("Sequences");
    field("sequence-padding", self.sequence_padding, weights,
          "the side on which shorter sequences of a mini-batch are padded with zeros, which do not change "
          "the hidden state");
    field(
        "sequence-length", self.sequence_length, weights,
        "minimum number of time steps that a mini-batch is padded to; 0: the length of its longest sequence",
        between(0, kMostTimeSteps));
    field("tbptt-length", self.tbptt_length, weights,
          "truncated backpropagation through time: cut sequences into pieces of this number of time steps, "
          "train on one piece in each step, and keep the hidden state for the next piece; 0: whole sequences",
          between(0, kMostTimeSteps));
    field("sort-by-length", self.sort_by_length, weights,
          "order training sequences by length, for less padding; with --shuffle never");
    field("Where it runs");
    field(
        "execution", self.execution, place,
        "where to compute; auto: a GPU if there is one, else the CPU; multi-gpu: all GPUs; parallel: all "
        "workers of an allocation, or of a job that is submitted with the default profile; with the profile "
        "local all GPUs of this machine, or if there is none, all cores");
    field("workers", self.workers, place,
          "number of workers that train in parallel; 0: one for each core, at most one for each shard, or "
          "one for each GPU that is used; under a launcher: the number on each rank, where 0 means one",
          between(0, 4096));
    field("shards", self.shards, weights,
          "number of parts that a mini-batch is cut into; with the same shards the weights are the same for "
          "any number of workers; 0: chosen by network and mini-batch",
          between(0, 65536));
    field(
        "batch-norm-group", self.batch_norm_group, weights,
        "number of samples over which batch norms normalise in training: whole shards, at most this number "
        "of samples but at least one shard; mini-batch: all of them, as in one process of PyTorch; auto: 16 "
        "if several shards can be computed at once, else a shard",
        between(1, kMostSamples));
    field("devices", self.devices, place,
          "GPUs to use, e.g. 0,2; empty: as --execution says; workers are spread over them in turn",
          between(0, 1023));
    field("worker-load", self.worker_load, place,
          "a number for each rank, in proportion to which it gets shards, e.g. 2,1 if the second computes at "
          "half the speed; empty: equally many at first, then as their measured speeds say. The weights are "
          "the "
          "same. Threads of a process need none: one that is done takes shards of others",
          between(1, kMostLoad));
    field("scale-with-workers", self.scale_with_workers, weights,
          "multiply the mini-batch and the shards (and the learning rate) by the number of workers, so that "
          "each worker has as much work as a single worker would have");
    field("prefetch", self.prefetch, place,
          "number of mini-batches to read ahead; 0: 4, or in averaging mode 16 for all replicas together",
          between(0, 65536));
    field("resident", self.resident, place,
          "on a GPU: keep all images in its memory and gather mini-batches there; auto: if they take no more "
          "than a quarter of the free memory, and there is neither augmentation nor kept features");
    field(
        "cuda-graphs", self.cuda_graphs, place,
        "on a GPU: record forward and backward of a shard once and replay them; auto: if the network and the "
        "options allow it, which the plan says; side-by-side: equal shards of a worker at the same time, "
        "which has not run on a GPU yet");
    field("Arithmetic");
    field("precision", self.precision, weights,
          "number format of the arithmetic; bf16-mixed and fp16-mixed keep weights in 32 bits; fp16-mixed "
          "scales the loss as PyTorch's GradScaler does, and skips steps whose gradients are not finite; "
          "auto: bf16-mixed if a short trial finds it faster and as accurate, else 32-true");
    field(
        "isa", self.isa, weights,
        "vector instructions that the CPU libraries may use; for equal bits all machines must use the same");
    field("kernels", self.kernels, weights,
          "on a CPU: auto: Lockstep's convolutions where they are faster; engine: those of LibTorch (oneDNN) "
          "everywhere");
    field("Exchange between workers");
    field("exchange", self.exchange, weights,
          "tree: the gradients of all shards are added in every step; average: each shard is a replica with "
          "its own weights, and replicas are averaged; bf16, fp16, powersgd: like tree, with compressed "
          "gradients between ranks, so the number of ranks affects the weights, but the number of workers of "
          "a rank does not");
    field("overlap", self.overlap, place,
          "tree with several ranks: send gradients in buckets while the backward pass computes the others, "
          "on GPUs without --cuda-graphs; the weights do not depend on it");
    field("powersgd-rank", self.powersgd_rank, weights,
          "--exchange powersgd: columns of the two factors that replace a matrix of gradients",
          between(1, 1024));
    field("Averaging mode");
    field("averaging-frequency", self.averaging_frequency, weights,
          "average: steps from one average to the next; there is also one at the end",
          between(1, kMostSteps));
    field("averaging-warmup-steps", self.averaging_warmup_steps, weights,
          "average: number of first steps in which replicas stay equal because their gradients are averaged "
          "in each; as in PyTorch's PeriodicModelAverager with post-local SGD, the first average comes one "
          "step after them, then one every --averaging-frequency steps; 0: averages at the multiples of "
          "--averaging-frequency",
          between(0, kMostSteps));
    field("average-updaters", self.average_updaters, weights,
          "average: average the optimizer's state too; false: each replica keeps its own");
    field("outer-optimizer", self.outer_optimizer, weights,
          "average: none: the average becomes the new weights; nesterov: the change from the last average is "
          "the gradient of an SGD step (DiLoCo)");
    field("outer-learning-rate", self.outer_learning_rate, weights, "learning rate of the outer optimizer",
          between(0, kMostRate));
    field("outer-momentum", self.outer_momentum, weights, "momentum of the outer optimizer", between(0, 1));
    field("report-score-after-averaging", self.report_score_after_averaging, record,
          "average: print the loss at each average and the time that averaging takes");
    field("How long");
    field("mini-batch-size", self.mini_batch_size, weights,
          "samples in a step, over all workers; in averaging mode, of each replica; auto: the largest power "
          "of two that fits in memory",
          between(1, 1e7));
    field("max-epochs", self.max_epochs, weights,
          "maximum number of passes over the training data; the learning rate schedule ends with them; 0: "
          "as the recipe says; with --recipe plain about 500 steps, from 6 to 30 epochs, or more if those "
          "are fewer than 250 steps",
          between(0, kMostEpochs));
    field("max-steps", self.max_steps, weights,
          "maximum number of steps; the learning rate schedule ends with them; 0: no limit",
          between(0, kMostSteps));
    field(
        "limit-batches", self.limit_batches, weights,
        "use only so many mini-batches of the training data in an epoch, and of the held-out and test data "
        "in a score; below 1: this share of them; always the same samples, the same share of each class; 0: "
        "all",
        between(0, kMostSteps));
    field("fast-dev-run", self.fast_dev_run, weights,
          "try everything once: one step, and one mini-batch of the held-out and test data");
    field("max-time", self.max_time, end, "maximum seconds of training; 0: no limit",
          between(0, kMostSeconds));
    field("pause-after-step", self.pause_after_step, end,
          "stop after this step with a checkpoint, as Ctrl-C does; the learning rate schedule stays that of "
          "the whole run, which --resume continues; 0: never",
          between(0, kMostSteps));
    field("validate-every", self.validate_every, weights,
          "steps between validations, which decide which weights are the best; 0: once an epoch",
          between(0, kMostSteps));
    field("patience", self.patience, end,
          "stop after this many validations without a better accuracy; 0: never; -1: 5, or more if those are "
          "fewer than 60 steps; with --recipe auto also more if they score fewer than 2,000 samples, and "
          "counted when a cosine has fallen to a tenth",
          between(-1, kMostSteps));
    field("Optimizer");
    field("optimizer", self.optimizer, weights,
          "SGD with momentum, Adam, AdamW or RMSprop, with PyTorch's arithmetic");
    field(
        "learning-rate", self.learning_rate, weights,
        "initial learning rate; auto: found by a test, 36 first steps with rising rates, after which the run "
        "begins anew (in runs of at least 288 steps); 0: as the recipe says; with --recipe plain 0.01 for "
        "sgdm, 0.1 for sgdm on sequences, 0.001 for the others, and a tenth of it with --head new",
        between(0, kMostRate));
    field("label-smoothing", self.label_smoothing, weights,
          "share of each target that is spread evenly over all classes in the training loss, as in PyTorch's "
          "CrossEntropyLoss(label_smoothing=...). Losses of validation and test are not smoothed",
          between(0, 1));
    field("lr-schedule", self.lr_schedule, weights,
          "how the learning rate falls; a drop factor or period alone means piecewise",
          also("learning-rate-schedule"));
    field("lr-drop-factor", self.lr_drop_factor, weights,
          "piecewise: factor that the learning rate is multiplied by after each period",
          also("learning-rate-drop-factor", between(0, 1)));
    field("lr-drop-period", self.lr_drop_period, weights, "piecewise: number of epochs in a period",
          also("learning-rate-drop-period", between(1, kMostEpochs)));
    field("warmup-steps", self.warmup_steps, weights,
          "steps over which the learning rate rises linearly to its value", between(0, kMostSteps));
    field("momentum", self.momentum, weights,
          "sgdm, rmsprop: share of the last update that is kept; -1: 0.9 for sgdm, 0 for rmsprop",
          between(-1, 1));
    field("nesterov", self.nesterov, weights, "sgdm: Nesterov momentum");
    field("beta1", self.beta1, weights, "adam, adamw: decay of the mean gradient", between(0, 1));
    field("beta2", self.beta2, weights, "adam, adamw: decay of the mean square", between(0, 1));
    field("alpha", self.alpha, weights, "rmsprop: decay of the mean square", between(0, 1));
    field("epsilon", self.epsilon, weights, "adam, adamw, rmsprop: added to the denominator",
          between(0, 1e3));
    field("weight-decay", self.weight_decay, weights,
          "factor of the weights that is added to the gradient (L2); adamw: decoupled; -1: 0.0001, or 0.01 "
          "for adamw",
          between(-1, kMostRate));
    field("gradient-clip", self.gradient_clip, weights,
          "maximum L2 norm of the whole gradient; 0: no clipping", between(0, 1e12));
    field("batch-norm-start", self.batch_norm_start, weights,
          "running statistics of batch norms in the first steps; pytorch: they move from 0 and 1 by their "
          "momentum; mean: they are the mean of all mini-batches so far, until 1 / steps is less than the "
          "momentum");
    field("accumulate", self.accumulate, weights,
          "number of pieces that each shard is computed in, one after the other, to save memory; batch norms "
          "see pieces, not shards",
          between(1, 65536));
    field("on-out-of-memory", self.out_of_memory, end,
          "when memory runs out in a step: error: the run ends; split: the step is repeated, and from then "
          "on each shard is computed in twice as many pieces, as with --accumulate (batch norms then see "
          "smaller pieces too), and gradients are not exchanged during backward (--overlap)");
    field("seed", self.seed, weights, "seed of initial weights, split, order, augmentation and dropout",
          between(0, kMostSeed));
    field("The run");
    field("output", self.output, record, "the run folder; default: runs/NAME-001, NAME-002, ...");
    field("resume", self.resume, record, "continue from the last checkpoint in --output");
    field("checkpoint-every", self.checkpoint_every, record,
          "steps between checkpoints; 0: at the end of each epoch", between(0, kMostSteps));
    field("hash-every", self.hash_every, record,
          "steps between hashes of the weights in the event log; 0: at the end of each epoch",
          between(0, kMostSteps));
    field("detect-anomaly", self.detect_anomaly, record,
          "look for values that are not finite after each layer and in each gradient, and end with the name "
          "of the layer and the shard that gave the first; slower, with the same weights");
    field("plot", self.plot, record, "redraw the curves in the terminal during the run");
    field("timing", self.timing, record, "print where the time of a step goes");
    field("verbose", self.verbose, record, "print a line for every step");
  };
};

}  // namespace lockstep::train
