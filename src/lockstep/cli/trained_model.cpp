#include "lockstep/cli/trained_model.h"

#include <string_view>
#include <unordered_map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/over_ranks.h"
#include "lockstep/cli/progress_line.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/record/result.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/train/loop/checkpoint.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kMostClassBytes = 16 << 20;

// A weights file does not contain classes and normalization; the run folder around it does.
std::filesystem::path run_folder_of(const std::filesystem::path& file) {
  if (auto folder = record::run_folder_around(file)) return *std::move(folder);
  throw Error(ErrorCode::not_found,
              "cannot use \"" + file.string() +
                  "\": it is not in a run folder, so its network and classes are unknown",
              "name the folder of the run (lockstep runs lists runs), or a network and --weights " +
                  shell_word(file.string()));
}

train::Model model_of_network(const Call& call, const ModelChoice& choice) {
  train::WeightsUse use{.weights = choice.weights};
  if (!choice.classes.empty()) use.classes = read_classes(choice.classes);
  for (const Setting& setting : call.settings) {
    if (!is_input_option(setting.name)) continue;
    set_field(use.options, setting.name, setting.text);
    use.given.push_back(setting.name);
  }
  return train::model_of_weights(nn::find_network(call.words.front()), use);
}

train::Model named_model(const Call& call) {
  const auto choice = settings_of<ModelChoice>(call);
  if (choice.weights != "last" && choice.weights != "best") {
    if (!std::filesystem::is_directory(call.words.front())) return model_of_network(call, choice);
    throw Error(ErrorCode::invalid_option, "option --weights cannot be \"" + choice.weights +
                                               "\": for a run folder it must be last or best");
  }
  for (const Setting& setting : call.settings) {
    if (!is_input_option(setting.name) && setting.name != "classes") continue;
    throw Error(
        ErrorCode::invalid_option,
        "--" + setting.name + " is for a network with --weights FILE, and a run folder defines its own",
        "leave it out");
  }
  const std::filesystem::path path = call.words.front();
  if (!std::filesystem::is_regular_file(path)) return train::model_of_run(path, choice.weights);
  train::Model model = train::untrained_model_of_run(run_folder_of(path));
  model.weights = path;
  return model;
}

}  // namespace

// A line may be "n01440764 tench": all of it is the name.
std::vector<std::string> read_classes(const std::string& path) {
  std::vector<std::string> names = split(read_file(path, kMostClassBytes), '\n');
  for (std::string& name : names) {
    if (name.ends_with('\r')) name.pop_back();
  }
  if (!names.empty() && names.back().empty()) names.pop_back();
  std::unordered_map<std::string_view, size_t> lines;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto [first, is_new] = lines.emplace(names[i], i + 1);
    if (is_new) continue;
    throw Error(ErrorCode::invalid_option,
                quote(path) + " has the class " + quote(names[i]) + " twice, in lines " +
                    with_commas(static_cast<int64_t>(first->second)) + " and " +
                    with_commas(static_cast<int64_t>(i + 1)),
                "give each class its own name, one in each line");
  }
  return names;
}

train::Model open_model(const Call& call, Console& console, const comm::Communicator* group) {
  train::Model model = named_model(call);
  if (leads(group)) examine_weights(model, console);
  return model;
}

train::Model model_for_scores(const Call& call, train::Model model, const train::Options& options) {
  return settings_of<ExactChoice>(call).exact
             ? model
             : train::with_folded_batch_norms(std::move(model), options.precision);
}

train::Options options_for_scores(const Call& call, const train::Model& model, train::Options options) {
  if (!settings_of<ExactChoice>(call).exact || model.shards == 0) return options;
  if (!call.text_of("mini-batch-size")) options.mini_batch_size = model.mini_batch_size;
  if (!call.text_of("shards")) options.shards = model.shards;
  return options;
}

train::Model take_weights(train::Model& model) {
  train::Model taken = model;
  model.state.clear();
  return taken;
}

void examine_weights(train::Model& model, Console& console) {
  if (model.state.empty()) model.state = nn::read_weights(model.weights).tensors;
  const auto warn = [&](const std::string& text) { console.note("warning: " + printable(text) + "\n"); };
  const std::string doubt = train::weights_doubt(model.weights, model.state);
  if (!doubt.empty()) warn(doubt);
  const std::string bad = nn::not_finite(model.state);
  if (!bad.empty())
    warn("the weights in \"" + model.weights.string() + "\" have " + bad +
         ", so the scores are not reliable");
}

std::string recorded_hash(const std::filesystem::path& file, const nn::NamedTensors& tensors) {
  const std::filesystem::path run = file.parent_path();
  const auto result = record::read_result(run);
  const bool is_of_end = result && !result->weights.empty() && file == record::RunPaths{run}.weights();
  return is_of_end && train::weights_doubt(file, tensors).empty() ? result->weights_hash : "";
}

data::Labels labels_of(const Call& call, const train::Model& model) {
  train::Options options{.labels = model.labels};
  if (const auto text = call.text_of("labels")) set_field(options, "labels", *text);
  return options.labels;
}

void note_part(const data::Source& source, Console& console, const comm::Communicator* group) {
  if (leads(group) && !source.file.empty()) console.note("the images of " + printable(source.file) + "\n");
}

data::Dataset readable_samples(const data::Source& source, const train::Model& model,
                               const train::Options& options, Console& console,
                               const comm::Communicator* group) {
  auto [dataset, unreadable] = train::readable_samples(source.dataset, model, options.on_bad_sample);
  if (!leads(group)) return dataset;
  for (const auto* left_out : {&source.skipped, &std::as_const(unreadable)}) {
    for (const data::BadSample& sample : *left_out)
      console.note("skipped \"" + sample.source + "\": " + sample.reason + "\n");
  }
  return dataset;
}

std::vector<train::Prediction> predict(const Call& call, Console& console, train::Model model,
                                       const data::Dataset& dataset, const train::Options& asked,
                                       comm::Communicator* group) {
  const train::Options options = options_for_scores(call, model, asked);
  if (group != nullptr)
    return train::predict(std::move(model), dataset, options, *group, call.launch->local_rank);
  ProgressLine line(console, noun_of(model), dataset.size());
  return train::predict(std::move(model), dataset, options, [&](int64_t count) { line.add(count); });
}

}  // namespace lockstep::cli
