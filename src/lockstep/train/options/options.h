// What a user may ask of a training run. Each option is described here once; command line, --config files,
// help, docs/options.md and manifests are made from it. What is left open (auto, 0) is filled in by the plan.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/data/order.h"
#include "lockstep/data/image_set.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/transform.h"
#include "lockstep/train/options/limits.h"
#include "lockstep/train/options/mini_batch_size.h"

namespace lockstep::train {

enum class Execution { auto_, cpu, gpu, multi_gpu, parallel };
constexpr std::array<const char*, 5> enum_names(Execution) {
  return {"auto", "cpu", "gpu", "multi-gpu", "parallel"};
}

enum class ScaleWithWorkers { none, batch, batch_and_rate };
constexpr std::array<const char*, 3> enum_names(ScaleWithWorkers) {
  return {"none", "batch", "batch-and-rate"};
}

/// How the shards' work becomes one network's: gradients added in the tree at every step, or replicas
/// averaged every few steps, or gradients added that travel between ranks in fewer bits (compression.h).
enum class ExchangeKind { tree, average, bf16, fp16, powersgd };
constexpr std::array<const char*, 5> enum_names(ExchangeKind) {
  return {"tree", "average", "bf16", "fp16", "powersgd"};
}

/// What is made of an average of replicas: the new weights, or the gradient of a step (DiLoCo,
/// arXiv:2311.08105).
enum class OuterOptimizer { none, nesterov };
constexpr std::array<const char*, 2> enum_names(OuterOptimizer) { return {"none", "nesterov"}; }

enum class Color { auto_, grey, rgb };
constexpr std::array<const char*, 3> enum_names(Color) { return {"auto", "grey", "rgb"}; }

enum class OptimizerKind { sgdm, adam, adamw, rmsprop };
constexpr std::array<const char*, 4> enum_names(OptimizerKind) {
  return {"sgdm", "adam", "adamw", "rmsprop"};
}

enum class ScheduleKind { constant, piecewise, cosine };
constexpr std::array<const char*, 3> enum_names(ScheduleKind) { return {"constant", "piecewise", "cosine"}; }

/// auto_: single or bf16_mixed by a short trial; see Plan::precision. Inference takes it for single.
enum class Precision { single, double_, bf16_mixed, fp16_mixed, auto_ };
constexpr std::array<const char*, 5> enum_names(Precision) {
  return {"32-true", "64-true", "bf16-mixed", "fp16-mixed", "auto"};
}

enum class Isa { auto_, avx2, avx512 };
constexpr std::array<const char*, 3> enum_names(Isa) { return {"auto", "avx2", "avx512"}; }

/// auto_: the project's own kernels where they are faster; engine: LibTorch's (oneDNN's) everywhere.
enum class Kernels { auto_, engine };
constexpr std::array<const char*, 2> enum_names(Kernels) { return {"auto", "engine"}; }

/// Whether a network's last layer keeps the weights of the file, or starts anew for the classes of the data.
enum class Head { keep, new_ };
constexpr std::array<const char*, 2> enum_names(Head) { return {"keep", "new"}; }

/// What frozen first layers give for each image: computed once and kept, where that is possible and fits
/// (auto_), or at every step.
enum class KeepFeatures { auto_, never, always };
constexpr std::array<const char*, 3> enum_names(KeepFeatures) { return {"auto", "never", "always"}; }

/// What becomes of a step in which memory runs out: the run's error, or the step anew in smaller pieces.
enum class OutOfMemory { error, split };
constexpr std::array<const char*, 2> enum_names(OutOfMemory) { return {"error", "split"}; }

/// Whether decoded images lie in the GPU's memory: where they fit and nothing changes them on the host
/// (auto_), always, or never.
enum class Resident { auto_, on, off };
constexpr std::array<const char*, 3> enum_names(Resident) { return {"auto", "on", "off"}; }

/// Asked-for options, as they were typed; see Plan for the resolved ones.
// Every member has an initialiser, so that a call that names a few of them compiles without a warning.
struct Options {
  // Network
  std::string network = "auto";
  std::string weights{};
  std::string image_size = "auto";
  data::Resize resize = data::Resize::stretch;
  std::string resize_to{};
  Color color = Color::auto_;
  data::Decode decode = data::Decode::exact;
  std::string normalize = "none";

  // Transfer learning
  Head head = Head::keep;
  int64_t drop_layers = 0;
  std::string freeze{};
  std::string learning_rate_factors{};
  KeepFeatures keep_features = KeepFeatures::auto_;

  // Data
  std::string validation{};
  std::string test{};
  double validation_split = 0.1;
  int64_t validation_count_per_class = 0;
  data::Labels labels = data::Labels::folder;
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
  std::vector<int64_t> devices{};
  ScaleWithWorkers scale_with_workers = ScaleWithWorkers::none;
  int64_t prefetch = 0;
  Resident resident = Resident::auto_;
  bool cuda_graphs = false;
  Precision precision = Precision::single;
  Isa isa = Isa::auto_;
  Kernels kernels = Kernels::auto_;

  // Averaging mode
  ExchangeKind exchange = ExchangeKind::tree;
  bool overlap = true;
  int64_t powersgd_rank = 4;
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
  double max_time = 0;
  int64_t validate_every = 0;
  int64_t patience = -1;

  // Optimizer
  OptimizerKind optimizer = OptimizerKind::sgdm;
  double learning_rate = 0;
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
  int64_t accumulate = 1;
  OutOfMemory out_of_memory = OutOfMemory::error;
  int64_t seed = 0;

  // The run
  std::string output{};
  bool resume = false;
  int64_t checkpoint_every = 0;
  int64_t hash_every = 0;
  bool plot = false;
  bool timing = false;
  bool verbose = false;

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Network");
    field("network", self.network,
          "a built-in network's name, or a layer graph NAME.json; auto: digits_cnn for small grey images, "
          "mlp for tiny ones, resnet18 for others, lstm_classifier for sequences");
    field("weights", self.weights,
          "start from this file instead of random weights: safetensors, or a state dict of torch.save");
    field("image-size", self.image_size,
          "HxW of the network's input, e.g. 28x28; auto: the images' own size when they share one, else "
          "their typical size up to 64x64, and 224x224 for larger ones");
    field(
        "resize", self.resize,
        "how images of another size are fitted: stretched, cropped around the centre, or padded with zeros");
    field("resize-to", self.resize_to,
          "HxW: fit the images to this size first, then cut --image-size out of the centre, or out of a "
          "random place by --augment random-crop; empty: fit them to --image-size");
    field("color", self.color, "auto: grey when the images are");
    field("decode", self.decode,
          "JPEG photographs: exact, as Pillow does; fast: at 1/2, 1/4 or 1/8 where the network's input is so "
          "much smaller, with colours resized before they are converted; gpu: by nvJPEG on the GPUs of the "
          "run, at full size and for files that can be trusted (not measured on a GPU yet)");
    field("normalize", self.normalize,
          "after division by 255 (sequences: as they are): none, mean-std (of the training data), imagenet "
          "(torchvision's), or M,S (or one pair per channel: M,S,M,S,M,S), also as fractions (123/255)");
    field("Transfer learning");
    field("head", self.head,
          "new: the last layer starts anew for the classes of the data, all others from --weights");
    field("drop-layers", self.drop_layers,
          "with --head new: so many layers at the end go, and a linear layer comes instead", between(0, 1e4));
    field("freeze", self.freeze,
          "layers that stay as they are: a comma list of names, * stands for any text, e.g. features.*");
    field("learning-rate-factors", self.learning_rate_factors,
          "PATTERN=FACTOR,...: multiply the rate of these layers or learnables, the last that fits counts; a "
          "new head has 10 for weights and 20 for biases");
    field("keep-features", self.keep_features,
          "what frozen first layers give for each image: computed once and kept, where no augmentation "
          "changes the images, in memory as far as --memory-share allows and in files (--cache) for later "
          "runs; or at every step");
    field("Data");
    field("validation", self.validation, "a folder of its own to validate on, instead of a split");
    field("test", self.test, "a folder to test on once, at the end");
    field("validation-split", self.validation_split,
          "share of each label that is held out when there is no --validation folder", between(0, 0.9));
    field("validation-count-per-class", self.validation_count_per_class,
          "number of samples of each class that are held out, instead of the share of --validation-split; 0: "
          "that share",
          between(0, kMostSamples));
    field("labels", self.labels, "the label is the folder that directly holds the file, or the top folder");
    field("augment", self.augment,
          "random changes of training images, in torchvision's words: none, or a comma list of "
          "random-resized-crop[=LEAST] or random-crop (out of the larger images of --resize-to, which "
          "random-crop needs), flip, flip-vertical, shift[=PIXELS], color-jitter[=B/C/S/H], "
          "random-erasing[=SHARE], mixup[=ALPHA]");
    field("shuffle", self.shuffle, "when the order of the samples is drawn anew");
    field("sample-order", self.sample_order,
          "who draws the order of the samples: lockstep; or distributed-sampler: the indices of PyTorch's "
          "DistributedSampler, whose replicas are the workers (in averaging mode the replicas) that the run "
          "begins with, so their number then decides the weights");
    field("on-bad-sample", self.on_bad_sample,
          "an unreadable image ends the run, or is left out, named and counted; a class of which none can be "
          "read ends it");
    field("memory-share", self.memory_share,
          "keep decoded images in memory while they take no more than this share of it", between(0, 1));
    field("cache", self.cache,
          "decoded images on disk: off; auto: the cache that lockstep cache made (in the data's folder; of "
          "archives and object stores in ~/.cache/lockstep/images), while it is of these images; where "
          "every epoch would decode them again, one in ~/.cache/lockstep/images is made; or a folder, "
          "where one is made and filled");
    field("cache-size", self.cache_size,
          "most gigabytes that the cache of one folder may take, and that all files in "
          "~/.cache/lockstep/images may: a run that makes one there removes the ones used least recently",
          between(0, 1e9));
    field("Sequences");
    field("sequence-padding", self.sequence_padding,
          "the side on which shorter sequences of a mini-batch get zeros, which change no recurrent state");
    field("sequence-length", self.sequence_length,
          "fewest time steps that a mini-batch is padded to; 0: as many as its longest sequence has",
          between(0, kMostTimeSteps));
    field("tbptt-length", self.tbptt_length,
          "truncated backpropagation: cut sequences into pieces of so many time steps, one a step, with "
          "recurrent state carried on; 0: whole sequences",
          between(0, kMostTimeSteps));
    field("sort-by-length", self.sort_by_length,
          "training sequences in order of length, for less padding; with --shuffle never");
    field("Where it runs");
    field("execution", self.execution,
          "auto: a GPU if there is one, else the CPU; multi-gpu: all of them; parallel: all GPUs, else all "
          "cores of this machine");
    field("workers", self.workers,
          "how many train side by side; 0: one for each core, at most one a shard, or for each GPU that is "
          "used; under a launcher: on each rank, 0 for one",
          between(0, 4096));
    field("shards", self.shards,
          "parts that a mini-batch is cut into; with equal shards the weights are the same for any number of "
          "workers; 0: by network and mini-batch",
          between(0, 65536));
    field("devices", self.devices,
          "which GPUs to use, e.g. 0,2; empty: as --execution says; workers take them in turn",
          between(0, 1023));
    field("scale-with-workers", self.scale_with_workers,
          "multiply the mini-batch and the shards (and the learning rate) by the number of workers, so that "
          "each worker has what one had");
    field("prefetch", self.prefetch,
          "mini-batches read ahead; 0: 4, and 16 over all replicas in averaging mode", between(0, 65536));
    field("resident", self.resident,
          "on a GPU: all images in its memory, where mini-batches are gathered from them; auto: where they "
          "take no more than a quarter of what is free there, and neither augmentation nor kept features "
          "stand against it");
    field("cuda-graphs", self.cuda_graphs,
          "on a GPU: record forward and backward of a shard once and replay them, where the network allows "
          "it; the plan says whether. Not measured on a GPU yet, so off unless asked for");
    field("precision", self.precision,
          "of arithmetic; bf16-mixed and fp16-mixed keep weights in 32 bits; fp16-mixed scales the loss as "
          "PyTorch's GradScaler does, and skips steps whose gradients are not finite; auto: bf16-mixed where "
          "a short trial finds it faster and as accurate, else 32-true");
    field("isa", self.isa,
          "vector instructions that the CPU libraries may use; machines of a group must use the same for "
          "equal bits");
    field(
        "kernels", self.kernels,
        "on a CPU: convolutions of this project where they are faster, or the engine's (oneDNN) everywhere");
    field("Averaging mode");
    field("exchange", self.exchange,
          "tree: the shards' gradients are added at every step; average: each shard is a replica that trains "
          "by itself, and replicas are averaged; bf16, fp16, powersgd: as tree, in fewer bits between ranks; "
          "the number of ranks then decides the weights, and the number of workers of a rank does not");
    field("overlap", self.overlap,
          "tree, over several ranks: exchange gradients in buckets while backward makes the others; the "
          "weights are the same without");
    field("powersgd-rank", self.powersgd_rank,
          "--exchange powersgd: columns of the two factors that a matrix of gradients becomes",
          between(1, 1024));
    field("averaging-frequency", self.averaging_frequency,
          "average: steps from one average to the next; there is one at the end too", between(1, kMostSteps));
    field("averaging-warmup-steps", self.averaging_warmup_steps,
          "average: number of first steps in which replicas stay equal, for their gradients are averaged in "
          "each; as PyTorch's PeriodicModelAverager with post-local SGD, the first average comes one step "
          "after them, then one every --averaging-frequency steps; 0: averages at the multiples of "
          "--averaging-frequency",
          between(0, kMostSteps));
    field("average-updaters", self.average_updaters,
          "average: the optimizer's state is averaged too; false: each replica keeps its own");
    field("outer-optimizer", self.outer_optimizer,
          "average: none: the average is the new weights; nesterov: it is the gradient of an SGD step "
          "(DiLoCo)");
    field("outer-learning-rate", self.outer_learning_rate, "outer optimizer: step size",
          between(0, kMostRate));
    field("outer-momentum", self.outer_momentum, "outer optimizer: share of the last step kept",
          between(0, 1));
    field("report-score-after-averaging", self.report_score_after_averaging,
          "average: print the averaged score (loss) and the averaging's time");
    field("How long");
    field("mini-batch-size", self.mini_batch_size,
          "samples in a step, over all workers; in averaging mode, of each replica; auto: the largest power "
          "of two that fits in memory",
          between(1, 1e7));
    field("max-epochs", self.max_epochs,
          "most passes over the training images; 0: about 500 steps, from 6 to 30 epochs, or more where "
          "those are under 250 steps",
          between(0, kMostEpochs));
    field("max-steps", self.max_steps, "most steps; 0: no limit", between(0, kMostSteps));
    field("max-time", self.max_time, "most seconds of training; 0: no limit", between(0, kMostSeconds));
    field("validate-every", self.validate_every, "steps between validations; 0: once an epoch",
          between(0, kMostSteps));
    field("patience", self.patience,
          "stop after this many validations without a better accuracy; 0: never; -1: 5, or more where those "
          "are under 60 steps",
          between(-1, kMostSteps));
    field("Optimizer");
    field("optimizer", self.optimizer, "PyTorch's arithmetic of SGD with momentum, Adam, AdamW, RMSprop");
    field("learning-rate", self.learning_rate,
          "step size at epoch 0; 0: 0.01 for sgdm, 0.1 for sgdm on sequences, 0.001 for the others, and a "
          "tenth of it with --head new",
          between(0, kMostRate));
    field("lr-schedule", self.lr_schedule,
          "how the learning rate falls; a drop factor or period alone means piecewise",
          also("learning-rate-schedule"));
    field("lr-drop-factor", self.lr_drop_factor, "piecewise: multiply the rate by this ...",
          also("learning-rate-drop-factor", between(0, 1)));
    field("lr-drop-period", self.lr_drop_period, "... every so many epochs",
          also("learning-rate-drop-period", between(1, kMostEpochs)));
    field("warmup-steps", self.warmup_steps, "steps over which the rate rises linearly to its value",
          between(0, kMostSteps));
    field("momentum", self.momentum,
          "sgdm, rmsprop: share of the last update kept; -1: 0.9 for sgdm, 0 for rmsprop", between(-1, 1));
    field("nesterov", self.nesterov, "sgdm: Nesterov's momentum");
    field("beta1", self.beta1, "adam, adamw: decay of the mean gradient", between(0, 1));
    field("beta2", self.beta2, "adam, adamw: decay of the mean square", between(0, 1));
    field("alpha", self.alpha, "rmsprop: decay of the mean square", between(0, 1));
    field("epsilon", self.epsilon, "adam, adamw, rmsprop: added to the root", between(0, 1e3));
    field("weight-decay", self.weight_decay,
          "L2 term added to the gradient; adamw: decoupled; -1: 0.0001, adamw 0.01", between(-1, kMostRate));
    field("gradient-clip", self.gradient_clip, "largest L2 norm of the whole gradient; 0: no clipping",
          between(0, 1e12));
    field("accumulate", self.accumulate,
          "pieces that each shard is computed in, one after the other, to save memory; batch norms see "
          "pieces, not shards",
          between(1, 65536));
    field("on-out-of-memory", self.out_of_memory,
          "when memory runs out in a step: error, or split: from this step on, which is computed anew, each "
          "shard in twice as many pieces, as with --accumulate (batch norms then see smaller pieces too); "
          "nothing is then exchanged beside backward (--overlap)");
    field("seed", self.seed, "of initial weights, split, order, augmentation and dropout",
          between(0, kMostSeed));
    field("The run");
    field("output", self.output, "the run folder; empty: runs/NAME-001 and on");
    field("resume", self.resume, "go on from the last checkpoint in --output");
    field("checkpoint-every", self.checkpoint_every, "steps between checkpoints; 0: at each epoch's end",
          between(0, kMostSteps));
    field("hash-every", self.hash_every,
          "steps between hashes of the weights in the event log; 0: at each epoch's end",
          between(0, kMostSteps));
    field("plot", self.plot, "redraw the curves in the terminal during the run");
    field("timing", self.timing, "print where a step's time goes");
    field("verbose", self.verbose, "a line for every step");
  };
};

}  // namespace lockstep::train
