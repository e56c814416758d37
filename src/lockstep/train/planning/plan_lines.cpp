#include "lockstep/train/planning/plan_lines.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/describe.h"
#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/device/jpeg_decoder.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/update/optimizer.h"
#include "lockstep/train/planning/sequence_data.h"

namespace lockstep::train {
namespace {

constexpr int64_t kLeastShard = 2;  // samples, as in used_shards
constexpr int64_t kPhotographSide = 64, kFewPhotographs = 10'000;

class Lines {
 public:
  Lines(const Plan& plan, const Options& options, const nn::Network& network, const PlanReasons& reasons)
      : plan_(plan), options_(options), network_(network), reasons_(reasons) {}

  std::vector<PlanLine> make() {
    describe_data();
    line("network", plan_.network.name,
         reasons_.network + "; " + with_commas(plan_.network.parameter_count) + " learnables" +
             start_advice());
    describe_transfer();
    line("device",
         plan_.machine.device == "cpu" ? "cpu" : "gpu " + describe_detail::text_of(plan_.machine.devices),
         reasons_.device);
    line("workers", std::to_string(plan_.machine.workers), reasons_.workers);
    if (options_.exchange == ExchangeKind::average) {
      describe_averaging();
    } else {
      line("shards", std::to_string(plan_.step.shards), shards_reason());
      line("mini-batch", std::to_string(plan_.step.mini_batch_size), batch_reason());
    }
    if (options_.out_of_memory == OutOfMemory::split)
      line("out of memory", "split",
           "each shard in twice as many pieces from then on; so nothing is exchanged beside backward");
    if (plan_.step.sampler_replicas > 0) describe_sampler();
    if (options_.exchange == ExchangeKind::bf16)
      describe_compression("gradients travel as bfloat16, and are added in 32 bits");
    if (options_.exchange == ExchangeKind::fp16)
      describe_compression("gradients travel as float16, and are added in 32 bits");
    if (options_.exchange == ExchangeKind::powersgd)
      describe_compression("matrices of gradients travel as two factors of " +
                           std::to_string(options_.powersgd_rank) + " columns");
    if (plan_.length.steps_per_epoch > 0) {
      line("steps",
           with_commas(plan_.length.total_steps) + " in " + std::to_string(plan_.length.max_epochs) +
               " epochs",
           steps_reason());
    } else {
      line("steps", "not known", "as many as the iterator has mini-batches for");
    }
    line(
        "optimizer", field_text(options_, "optimizer"),
        "learning rate " + shortest(plan_.update.learning_rate) + ", " + field_text(options_, "lr-schedule"));
    line("precision", enum_names(plan_.step.precision)[static_cast<size_t>(plan_.step.precision)],
         reasons_.precision);
    if (plan_.machine.device == "cpu") line("kernels", field_text(options_, "kernels"), kernels_reason());
    if (!reasons_.cuda_graphs.empty())
      line("CUDA graphs", plan_.machine.cuda_graphs ? "yes" : "no", reasons_.cuda_graphs);
    describe_memory();
    line("arithmetic", plan_.machine.fingerprint, "equal bits where this line is equal");
    return std::move(lines_);
  }

 private:
  bool sequences() const { return plan_.data.format.kind == data::SampleKind::sequence; }
  void line(std::string name, std::string value, std::string reason) {
    lines_.push_back({std::move(name), std::move(value), std::move(reason)});
  }

  void describe_data() {
    const std::string noun = !sequences()                  ? " images"
                             : plan_.step.tbptt_length > 0 ? " pieces of sequences"
                                                           : " sequences";
    line("data",
         (plan_.data.streamed ? "streamed" : with_commas(plan_.data.train_count)) + noun + ", " +
             std::to_string(plan_.data.classes.size()) + " classes",
         reasons_.source.empty() ? "given" : reasons_.source);
    line("held out", with_commas(plan_.data.validation_count) + noun, reasons_.validation);
    if (plan_.data.test_count > 0)
      line("test", with_commas(plan_.data.test_count) + noun,
           options_.test.empty() ? "given" : "from " + options_.test);
    if (sequences()) {
      for (PlanLine& sequence_line : sequence_lines(plan_, options_))
        lines_.push_back(std::move(sequence_line));
      return;
    }
    line("image size",
         std::to_string(plan_.data.format.height) + "x" + std::to_string(plan_.data.format.width),
         reasons_.image_size);
    line("color", plan_.data.format.channels == 1 ? "grey" : "rgb", reasons_.color);
    line("decode", field_text(options_, "decode"), decoding());
    line("normalize", options_.normalize,
         options_.normalize == "mean-std" ? "of the training images" : "pixels / 255");
  }

  // Of photographs, by networks whose weights can be had.
  std::string start_advice() const {
    const bool photographs = std::min(plan_.data.format.height, plan_.data.format.width) >= kPhotographSide &&
                             plan_.data.train_count < kFewPhotographs;
    return photographs && options_.weights.empty() && !nn::where_weights_are(plan_.network.name).empty()
               ? "; with so few images better start from trained weights (--weights, --head new)"
               : "";
  }

  std::string decoding() const {
    switch (options_.decode) {
      case data::Decode::exact:
        return "within 1 level of Pillow";
      case data::Decode::fast:
        return "JPEG scaled towards the image size; some levels off Pillow's";
      case data::Decode::gpu:
        return "JPEG by " + plan_.data.format.jpeg_decoder->fingerprint() + "; some levels off Pillow's";
    }
    return "";
  }

  void describe_transfer() {
    if (!plan_.network.fresh_layers.empty()) {
      const std::string dropped =
          plan_.network.dropped_layers.empty()
              ? ""
              : "; " + std::to_string(plan_.network.dropped_layers.size()) + " layers are gone";
      line("new head", join(plan_.network.fresh_layers, ", "),
           "for " + std::to_string(plan_.data.classes.size()) + " classes" + dropped);
    }
    if (plan_.network.learned_count < plan_.network.parameter_count)
      line("frozen", with_commas(plan_.network.parameter_count - plan_.network.learned_count) + " learnables",
           "by " + options_.freeze);
    if (plan_.network.frozen_layers > 0)
      line("frozen layers",
           !plan_.network.keep_features     ? "computed at every step"
           : plan_.network.features_on_disk ? "computed once, kept on disk"
                                            : "computed once, kept",
           reasons_.features);
  }

  void describe_averaging() {
    const bool asked = options_.shards > 0;
    const std::string count = std::to_string(plan_.step.shards),
                      size = std::to_string(plan_.step.mini_batch_size / plan_.step.shards);
    const int64_t vectors =
        3 + rule_of(plan_.update).state_count();  // weights, gradients twice, the optimizer's state
    line("replicas", count,
         (asked ? "asked for (--shards)" : "one a worker") +
             std::string("; each with weights, gradients and optimizer of its own: ") +
             as_bytes(plan_.step.shards * vectors * plan_.network.learned_count *
                      number_bytes(plan_.step.precision)));
    line("mini-batch", size + " a replica", std::to_string(plan_.step.mini_batch_size) + " in a step of all");
    std::string rule = options_.outer_optimizer == OuterOptimizer::none
                           ? "weighted by samples"
                           : "outer Nesterov step, rate " + shortest(options_.outer_learning_rate) +
                                 ", momentum " + shortest(options_.outer_momentum);
    rule += options_.average_updaters ? "; the optimizer's state is averaged too"
                                      : "; each replica keeps its optimizer's state";
    if (options_.averaging_warmup_steps > 0)
      rule += "; gradients are averaged in the first " + with_commas(options_.averaging_warmup_steps) +
              " steps, and the replicas one step after them";
    line("exchange",
         options_.averaging_frequency == 1
             ? "average at every step"
             : "average every " + std::to_string(options_.averaging_frequency) + " steps",
         rule);
    line("same weights", "yes",
         asked ? "for any number of workers: the replicas decide the weights"
               : "for any number of workers with --shards " + count +
                     "; without it, other workers mean other replicas and other weights");
  }

  void describe_sampler() {
    const bool averages = options_.exchange == ExchangeKind::average;
    line("sample order", "distributed-sampler",
         "PyTorch's DistributedSampler, " + std::to_string(plan_.step.sampler_replicas) +
             (averages ? " replicas" : " workers") + " with " +
             std::to_string(plan_.step.mini_batch_size / plan_.step.sampler_replicas) +
             " samples each in a step");
    if (!averages) line("same weights", "no", "another number of workers deals other samples to a step");
  }

  void describe_compression(const std::string& how) {
    line("exchange", field_text(options_, "exchange"), how);
    line("same weights", "no",
         std::string("for any number of workers of a rank; another number of ranks rounds other sums") +
             (options_.exchange == ExchangeKind::powersgd
                  ? ", and a resume begins without what was left out before"
                  : ""));
  }

  void describe_memory() {
    if (!sequences()) {
      const auto allowed =
          static_cast<int64_t>(static_cast<double>(reasons_.memory_bytes) * options_.memory_share);
      if (!plan_.data.streamed)
        line("images in memory", plan_.machine.keep_images ? "all, once decoded" : "none",
             as_bytes(plan_.data.train_count * reasons_.image_bytes) + " of " + as_bytes(allowed) +
                 " allowed (--memory-share)");
    }
    if (!reasons_.resident.empty())
      line("images on the GPU", plan_.machine.resident ? "all" : "none", reasons_.resident);
    if (!reasons_.cache_file.empty()) {
      line("decoded on disk", reasons_.cache_file,
           reasons_.cache.empty() ? "checked against the files' sizes and times (--cache)" : reasons_.cache);
    } else if (plan_.machine.cached_images) {
      line("decoded on disk", "not yet", reasons_.cache);
    } else if (!sequences() && !plan_.machine.keep_images && !plan_.network.keep_features) {
      const std::string reason = reasons_.cache.empty() ? "" : reasons_.cache + ", ";
      line("decoded on disk", "none",
           reason + (several_epochs() ? "so every epoch decodes all images again; --cache FOLDER keeps them "
                                        "there, for later runs too"
                                      : "all are decoded once (--cache " + options_.cache + ")"));
    } else if (!reasons_.cache.empty()) {
      line("decoded on disk", "none",
           reasons_.cache +
               (reasons_.dry && options_.cache != "auto" ? "; training makes one where it can" : "") +
               " (--cache " + options_.cache + ")");
    }
  }

  bool several_epochs() const { return plan_.length.total_steps > plan_.length.steps_per_epoch; }

  std::string steps_reason() const {
    return std::to_string(plan_.length.steps_per_epoch) + " an epoch" +
           (options_.max_epochs == 0 && options_.max_steps == 0 ? "; the limit goes by the number of images"
                                                                : "") +
           (plan_.length.patience > 0 && plan_.data.validation_count > 0
                ? "; ends sooner after " + std::to_string(plan_.length.patience) +
                      " validations without a better accuracy"
                : "");
  }

  std::string shards_reason() const {
    std::string text = options_.shards > 0 ? "asked for"
                                           : "for " + with_commas(plan_.network.learned_count) +
                                                 " learnables and mini-batches of " +
                                                 std::to_string(plan_.step.mini_batch_size);
    const int64_t used = used_shards(plan_.step.shards, plan_.step.mini_batch_size);
    const int64_t largest = divided_up(used, plan_.machine.workers);
    const double busy = static_cast<double>(used) / static_cast<double>(largest * plan_.machine.workers);
    text += "; " + std::to_string(plan_.machine.workers) +
            (plan_.machine.workers == 1 ? " worker is " : " workers are ") + fixed(100 * busy, 0) + " % busy";
    if (used < plan_.step.shards) text += "; a mini-batch fills only " + std::to_string(used);
    return text + "; gradients take " +
           as_bytes(gradient_buffers() * plan_.network.learned_count * number_bytes(plan_.step.precision));
  }

  // A worker keeps one for each level of its part of the shard tree.
  int64_t gradient_buffers() const {
    int64_t depth = 1;
    for (int64_t own = divided_up(plan_.step.shards, plan_.machine.workers); own > 1; own = (own + 1) / 2)
      ++depth;
    return depth * plan_.machine.workers;
  }

  std::string batch_reason() const {
    std::string text = std::to_string(plan_.step.mini_batch_size /
                                      used_shards(plan_.step.shards, plan_.step.mini_batch_size)) +
                       " a shard";
    if (options_.scale_with_workers != ScaleWithWorkers::none)
      text += "; scaled with the workers from " + field_text(options_, "mini-batch-size");
    return reasons_.mini_batch.empty() ? text : text + "; " + reasons_.mini_batch;
  }

  std::string kernels_reason() const {
    if (options_.kernels == Kernels::engine) return "LibTorch's and oneDNN's only";
    if (plan_.step.precision == Precision::double_ || plan_.step.precision == Precision::fp16_mixed)
      return "LibTorch's, for own ones are in float32 and bfloat16";
    if (network_.spec().is_null())
      return "own kernels where they are faster" +
             std::string(sequences()              ? ""
                         : reasons_.channels_last ? "; images lie channels last"
                                                  : "; images lie channels first, for the network gives "
                                                    "something else when they do not");
    const int64_t images = plan_.step.mini_batch_size /
                           used_shards(plan_.step.shards, plan_.step.mini_batch_size) / options_.accumulate;
    int64_t own = 0, all = 0;
    for (const nn::LayerRow& row : nn::inspect_network(network_, plan_.network.input).rows) {
      if (!row.runs_direct) continue;
      ++all;
      own += row.runs_direct(std::max<int64_t>(1, images), plan_.step.precision == Precision::bf16_mixed);
    }
    if (all == 0) return "no convolutions; LibTorch's";
    if (own == all) return "own kernels for all " + std::to_string(all) + " convolutions";
    return "own kernels for " + std::to_string(own) + " of " + std::to_string(all) +
           " convolutions, oneDNN's for the others";
  }

  const Plan& plan_;
  const Options& options_;
  const nn::Network& network_;
  const PlanReasons& reasons_;
  std::vector<PlanLine> lines_;
};

}  // namespace

std::vector<std::string> plan_warnings(const Plan& plan, const Options& options) {
  const bool averages = options.exchange == ExchangeKind::average;
  const int64_t workers = plan.machine.workers,
                used = averages ? plan.step.shards : used_shards(plan.step.shards, plan.step.mini_batch_size),
                idle = workers - used;
  if (idle <= 0) return {};
  const std::string what = averages ? " replicas" : used == 1 ? " shard" : " shards";
  const std::string have = used == plan.step.shards
                               ? std::to_string(used) + what
                               : "a mini-batch of " + std::to_string(plan.step.mini_batch_size) +
                                     " samples fills only " + std::to_string(used) + what;
  const std::string text = std::to_string(workers) + " workers, but " + have + ": " + std::to_string(idle) +
                           (idle == 1 ? " worker has" : " workers have") + " nothing to do; ";
  const int64_t samples = kLeastShard * workers;
  if (options.resume || (!averages && !plan.data.streamed && plan.data.train_count < samples))
    return {
        text + "fewer --workers are as fast" +
        (plan.step.sampler_replicas > 0 && !averages && !options.resume ? "" : ", with the same weights")};
  const std::string larger = averages || plan.step.mini_batch_size >= samples
                                 ? ""
                                 : "--mini-batch-size " + std::to_string(samples) + " ";
  return {text + larger + "--shards " + std::to_string(workers) +
          " gives each one something (and other weights)"};
}

std::vector<PlanLine> plan_lines(const Plan& plan, const Options& options, const nn::Network& network,
                                 const PlanReasons& reasons) {
  return Lines(plan, options, network, reasons).make();
}

}  // namespace lockstep::train
