#include "lockstep/train/planning/plan_lines.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "lockstep/base/counted.h"
#include "lockstep/base/describe.h"
#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/train/planning/internal/line_groups.h"
#include "lockstep/train/planning/network_choice.h"
#include "lockstep/train/planning/start_weights.h"

namespace lockstep::train {
namespace {

constexpr int64_t kLeastShard = 2;  // samples, as in used_shards

// Few photographs, and a network whose trained weights can be downloaded: that of the plan, or the one from
// which --pretrained starts where the recipe chose the network.
bool wants_trained_weights(const Plan& plan) {
  const bool by_recipe = plan.recipe.find("network") != nullptr;
  const std::string network = by_recipe ? default_network(plan.data.format).first.name() : plan.network.name;
  return are_few_photographs(plan.data.format, plan.data.train_count) && plan.network.weights.empty() &&
         !nn::where_weights_are(network).empty();
}

std::vector<PlanLine> recipe_lines(const RecipePlan& recipe) {
  if (recipe.kind == Recipe::plain)
    return {{"recipe", "plain", "options that are not given have their defaults"}};
  std::vector<PlanLine> lines{
      {"recipe", "auto",
       "sets the options below, which were not given; --recipe plain leaves their defaults"}};
  for (const RecipeValue& value : recipe.values)
    lines.push_back({"--" + value.option, value.value, value.reason});
  return lines;
}

std::vector<PlanLine> network_lines(const Plan& plan, const PlanReasons& reasons) {
  const NetworkPlan& network = plan.network;
  const std::string advice =
      wants_trained_weights(plan) ? "; with so few images, start from trained weights: --pretrained" : "";
  std::vector<PlanLine> lines;
  lines.push_back({"network", network.name,
                   reasons.network + "; " + with_commas(network.parameter_count) + " learnables" + advice});
  if (!network.weights.empty()) lines.push_back({"weights", network.weights, reasons.weights});
  if (!network.fresh_layers.empty()) {
    const size_t dropped = network.dropped_layers.size();
    lines.push_back({"new head", join(network.fresh_layers, ", "),
                     "for " + counted(std::ssize(plan.data.classes), "class") +
                         (dropped == 0 ? ""
                                       : "; " + counted(static_cast<int64_t>(dropped), "layer") +
                                             (dropped == 1 ? " is" : " are") + " removed")});
  }
  if (network.learned_count < network.parameter_count)
    lines.push_back({"frozen", with_commas(network.parameter_count - network.learned_count) + " learnables",
                     "by " + join(network.freeze, ",")});
  if (network.frozen_layers > 0)
    lines.push_back({"frozen layers",
                     !network.keep_features     ? "computed at every step"
                     : network.features_on_disk ? "computed once, kept on disk"
                                                : "computed once, kept",
                     reasons.features});
  return lines;
}

PlanLine steps_line(const LengthPlan& length, int64_t validation_count, bool given) {
  if (length.steps_per_epoch == 0)
    return {"steps", "not known", "as many as the iterator has mini-batches for"};
  std::string reason = std::to_string(length.steps_per_epoch) + " per epoch";
  if (!given) reason += "; the limit depends on the number of images";
  if (length.patience > 0 && validation_count > 0)
    reason += "; ends sooner after " + std::to_string(length.patience) +
              " validations without a better accuracy" +
              (length.patience_from > 0 ? ", counted from step " + with_commas(length.patience_from) : "");
  return {"steps", with_commas(length.total_steps) + " in " + counted(length.max_epochs, "epoch"), reason};
}

std::string kernels_reason(const Plan& plan, const nn::Network& network, bool channels_last) {
  if (plan.step.kernels == Kernels::engine) return "LibTorch's and oneDNN's only";
  if (plan.step.precision == Precision::double_ || plan.step.precision == Precision::fp16_mixed)
    return "LibTorch's, because Lockstep's kernels are for float32 and bfloat16";
  if (network.spec().is_null()) {
    const std::string own = "Lockstep's kernels where they are faster";
    if (plan.data.format.kind == data::SampleKind::sequence) return own;
    return own + (channels_last ? "; images are stored channels last"
                                : "; images are stored channels first, because the network's results differ "
                                  "with channels last");
  }
  const int64_t images = plan.step.mini_batch_size /
                         used_shards(plan.step.shards, plan.step.mini_batch_size) / plan.step.accumulate;
  int64_t own = 0, all = 0;
  for (const nn::LayerRow& row : nn::inspect_network(network, plan.network.input).rows) {
    if (!row.runs_direct) continue;
    ++all;
    own += row.runs_direct(std::max<int64_t>(1, images), plan.step.precision == Precision::bf16_mixed);
  }
  if (all == 0) return "no convolutions; LibTorch's";
  if (own == all)
    return "Lockstep's kernels for " + (all == 1 ? "the" : "all " + with_commas(all)) + " convolution" +
           (all == 1 ? "" : "s");
  return "Lockstep's kernels for " + std::to_string(own) + " of " + std::to_string(all) +
         " convolutions, oneDNN's for the others";
}

// What the data make doubtful.
std::vector<std::string> data_warnings(const Plan& plan) {
  constexpr double kMostOfOneClass = 0.9;
  constexpr int64_t kFewHeldOut = 10;
  const DataPlan& data = plan.data;
  std::vector<std::string> warnings;
  if (!data.class_counts.empty() && data.class_weights.empty()) {
    const auto most = std::max_element(data.class_counts.begin(), data.class_counts.end());
    const auto all = std::accumulate(data.class_counts.begin(), data.class_counts.end(), int64_t{0});
    const double share = static_cast<double>(*most) / static_cast<double>(std::max<int64_t>(1, all));
    if (share > kMostOfOneClass)
      warnings.push_back(fixed(100 * share, 1) + " % of the training samples are of class \"" +
                         data.classes[static_cast<size_t>(most - data.class_counts.begin())] +
                         "\", so guessing it has that accuracy: look at macro F1, and try --class-weights "
                         "balanced");
  }
  if (data.validation_count > 0 && data.validation_count < kFewHeldOut)
    warnings.push_back("only " + counted(data.validation_count, "sample") +
                       (data.validation_count == 1 ? " is" : " are") +
                       " held out, so the accuracy says little; hold out more with "
                       "--validation-split");
  if (wants_trained_weights(plan))
    warnings.push_back(
        with_commas(data.train_count) +
        " photographs are few for random weights: with trained ones training is shorter and the "
        "accuracy higher; --pretrained starts from them");
  return warnings;
}

std::vector<std::string> worker_warnings(const Plan& plan, bool resumed) {
  const bool averages = plan.exchange.averages();
  const int64_t workers = plan.machine.workers,
                used = averages ? plan.step.shards : used_shards(plan.step.shards, plan.step.mini_batch_size),
                idle = workers - used;
  if (idle <= 0) return {};
  const std::string what = averages ? " replicas" : used == 1 ? " shard" : " shards";
  const std::string have = used == plan.step.shards
                               ? std::to_string(used) + what
                               : "a mini-batch of " + counted(plan.step.mini_batch_size, "sample") +
                                     " fills only " + std::to_string(used) + what;
  const std::string text = std::to_string(workers) + " workers, but " + have + ": " + std::to_string(idle) +
                           (idle == 1 ? " worker has" : " workers have") + " nothing to do; ";
  const int64_t samples = kLeastShard * workers;
  if (resumed || (!averages && !plan.data.streamed && plan.data.train_count < samples))
    return {text + "fewer --workers are as fast" +
            (plan.step.sampler_replicas > 0 && !averages && !resumed ? "" : ", with the same weights")};
  const std::string larger = averages || plan.step.mini_batch_size >= samples
                                 ? ""
                                 : "--mini-batch-size " + std::to_string(samples) + " ";
  return {text + larger + "--shards " + std::to_string(workers) +
          " gives each one something (and other weights)"};
}

std::string update_text(const UpdatePlan& update, const PlanReasons& reasons) {
  std::string text = "learning rate ";
  if (update.rate_test_steps > 0)
    text += "found by " + std::to_string(update.rate_test_steps) + " steps around ";
  text += shortest(update.learning_rate);
  if (reasons.rate_to_be_tested && update.rate_test_steps == 0) text += " (the run is too short for a test)";
  text += ", " + describe_detail::as_text(update.lr_schedule);
  if (update.head_steps > 0)
    text += ", only the new layers in the first " + counted(update.head_steps, "step");
  if (update.label_smoothing > 0) text += ", label smoothing " + shortest(update.label_smoothing);
  return text;
}

}  // namespace

PlanReasons reasons_of(const Options& options, const device::Inventory& inventory) {
  PlanReasons reasons;
  reasons.normalize = options.normalize;
  reasons.weights = start_reason(options);
  reasons.test = options.test.empty() ? "given" : "from " + options.test;
  reasons.sorted_by_length = options.sort_by_length;
  reasons.shards_given = options.shards > 0;
  reasons.batch_norm_group_given = !options.batch_norm_group.is_auto();
  reasons.length_given = options.max_epochs > 0 || options.max_steps > 0;
  reasons.cache_option = options.cache;
  reasons.allowed_bytes =
      static_cast<int64_t>(static_cast<double>(inventory.memory_bytes) * options.memory_share);
  return reasons;
}

std::vector<std::string> plan_warnings(const Plan& plan, const PlanReasons& reasons, bool resumed) {
  std::vector<std::string> warnings = worker_warnings(plan, resumed);
  if (resumed) return warnings;
  warnings.insert(warnings.end(), reasons.source_warnings.begin(), reasons.source_warnings.end());
  if (reasons.none_held_out)
    warnings.emplace_back(
        "no label has enough samples, so none are held out, and the run has no accuracy; --validation names "
        "samples for it");
  if (plan.recipe.kind == Recipe::auto_) {
    for (std::string& text : data_warnings(plan)) warnings.push_back(std::move(text));
  }
  if (!reasons.normalization_warning.empty()) warnings.push_back(reasons.normalization_warning);
  return warnings;
}

std::vector<PlanLine> plan_lines(const Plan& plan, const nn::Network& network, const PlanReasons& reasons) {
  using describe_detail::as_text;
  std::vector<PlanLine> lines;
  const auto add = [&](std::vector<PlanLine> group) {
    lines.insert(lines.end(), std::make_move_iterator(group.begin()), std::make_move_iterator(group.end()));
  };
  add(data_lines(plan, reasons));
  add(recipe_lines(plan.recipe));
  add(network_lines(plan, reasons));
  const bool on_cpu = plan.machine.device == "cpu";
  lines.push_back({"device", on_cpu ? "cpu" : "gpu " + as_text(plan.machine.devices), reasons.device});
  lines.push_back({"workers", std::to_string(plan.machine.workers), reasons.workers});
  if (reasons.loader_count > 0)
    lines.push_back({"data loaders", std::to_string(reasons.loader_count), reasons.loaders});
  add(step_lines(plan, reasons));
  lines.push_back(steps_line(plan.length, plan.data.validation_count, reasons.length_given));
  lines.push_back({"optimizer", as_text(plan.update.optimizer), update_text(plan.update, reasons)});
  lines.push_back({"precision", as_text(plan.step.precision), reasons.precision});
  if (on_cpu)
    lines.push_back(
        {"kernels", as_text(plan.step.kernels), kernels_reason(plan, network, reasons.channels_last)});
  if (!reasons.cuda_graphs.empty())
    lines.push_back({"CUDA graphs", plan.machine.cuda_graphs ? "yes" : "no", reasons.cuda_graphs});
  add(memory_lines(plan, reasons));
  lines.push_back({"arithmetic", plan.machine.fingerprint, "equal bits where this line is equal"});
  return lines;
}

}  // namespace lockstep::train
