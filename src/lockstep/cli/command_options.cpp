#include "lockstep/cli/command_options.h"

#include <algorithm>

#include "lockstep/cli/verbs.h"
#include "lockstep/train/options/forecast_options.h"
#include "lockstep/train/options/options.h"

namespace lockstep::cli {
namespace {

struct InferenceOption {
  std::string_view name;
  std::string_view help = {};  ///< replaces the help for training, where that would mislead
};
constexpr std::array<InferenceOption, 10> kInferenceOptions{{
    {"labels"},
    {"on-bad-sample", "what to do with an unreadable image: end the command, or skip, report and count it"},
    {"mini-batch-size", "number of samples computed at once; auto is only for training"},
    {"execution",
     "where to compute; auto: a GPU if there is one, else the CPU; multi-gpu and parallel: all GPUs, or if "
     "there is none, all cores of this machine"},
    {"workers",
     "number of workers that compute in parallel; 0: one per core, or one per GPU that is used; under a "
     "launcher: "
     "the number on each rank, where 0 means one"},
    {"shards"},
    {"devices"},
    {"precision", "numeric precision; auto: 32-true, also for a run that was trained with bf16-mixed"},
    {"isa",
     "vector instructions that the CPU libraries may use; auto: all available ones, also for a run that was "
     "trained with --isa"},
    {"kernels"},
}};

const InferenceOption* inference_option(std::string_view name) {
  const auto found = std::find_if(kInferenceOptions.begin(), kInferenceOptions.end(),
                                  [&](const InferenceOption& option) { return option.name == name; });
  return found == kInferenceOptions.end() ? nullptr : &*found;
}

constexpr std::array<std::string_view, 5> kInputOptions{"image-size", "resize", "resize-to", "color",
                                                        "normalize"};

// bench scaling sets these itself, or they would change what its runs train.
constexpr std::array<const char*, 4> kSetByScaling{"workers", "resume", "max-time", "plot"};

// The options that decide where and how inference runs.
std::vector<FieldInfo> inference_fields() {
  std::vector<FieldInfo> fields = fields_of<train::Options>();
  std::erase_if(fields, [](const FieldInfo& field) { return !is_inference_option(field.name); });
  for (FieldInfo& field : fields) {
    if (const std::string_view help = inference_option(field.name)->help; !help.empty()) field.help = help;
  }
  return fields;
}

// ModelChoice, and the options of the input.
std::vector<FieldInfo> model_fields() {
  std::vector<FieldInfo> fields = fields_of<train::Options>();
  std::erase_if(fields, [](const FieldInfo& field) { return !is_input_option(field.name); });
  for (FieldInfo& field : fields)
    field.section = "Input of a network with --weights FILE; a run folder defines its own";
  return fields_of<ModelChoice>() + fields;
}

}  // namespace

bool is_inference_option(std::string_view name) { return inference_option(name) != nullptr; }

bool is_input_option(std::string_view name) {
  return std::find(kInputOptions.begin(), kInputOptions.end(), name) != kInputOptions.end();
}

std::vector<FieldInfo> operator+(std::vector<FieldInfo> fields, const std::vector<FieldInfo>& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

std::vector<FieldInfo> training_fields() { return fields_of<train::Options>() + fields_of<ConfigFile>(); }

std::vector<FieldInfo> no_fields() { return {}; }

std::vector<FieldInfo> train_fields() {
  return training_fields() + fields_of<RankSettings>() + fields_of<ReportSwitch>();
}

std::vector<FieldInfo> plan_fields() {
  return training_fields() + fields_of<train::ForecastOptions>() + fields_of<JsonOutput>();
}

std::vector<FieldInfo> cache_fields() { return training_fields(); }

std::vector<FieldInfo> evaluate_fields() {
  return model_fields() + inference_fields() + fields_of<ExactChoice>() + fields_of<MistakesOutput>() +
         fields_of<JsonOutput>() + fields_of<RankSettings>();
}

std::vector<FieldInfo> predict_fields() {
  return model_fields() + inference_fields() + fields_of<ExactChoice>() + fields_of<PredictionOutput>() +
         fields_of<JsonOutput>() + fields_of<RankSettings>();
}

std::vector<FieldInfo> weights_show_fields() { return fields_of<JsonOutput>(); }

std::vector<FieldInfo> layer_show_fields() {
  return fields_of<LayerShowOutput>() + model_fields() + inference_fields() + fields_of<JsonOutput>();
}

std::vector<FieldInfo> data_show_fields() {
  std::vector<FieldInfo> fields = fields_of<train::Options>();
  std::erase_if(
      fields, [](const FieldInfo& field) { return field.name != "labels" && field.name != "on-bad-sample"; });
  return fields_of<DataChoice>() + fields + fields_of<JsonOutput>();
}

std::vector<FieldInfo> report_fields() { return fields_of<ReportOptions>() + inference_fields(); }

std::vector<FieldInfo> network_show_fields() {
  return fields_of<InputChoice>() + fields_of<TimeChoice>() + fields_of<JsonOutput>();
}

std::vector<FieldInfo> studio_fields() { return fields_of<StudioSettings>(); }

std::vector<FieldInfo> export_fields() {
  std::vector<FieldInfo> fields = model_fields();
  for (FieldInfo& field : fields) {
    if (field.name == "classes")
      field.help =
          "file with the class names of a network, one per line, in the order of its outputs; for a network "
          "without weights also their number";
  }
  return fields_of<ExportSettings>() + fields;
}

std::vector<FieldInfo> import_fields() { return fields_of<ImportSettings>(); }

std::vector<FieldInfo> run_fields() { return fields_of<RunSettings>(); }

std::vector<FieldInfo> doctor_fields() { return fields_of<JsonOutput>(); }

std::vector<FieldInfo> bench_scaling_fields() {
  std::vector<FieldInfo> fields = training_fields();
  std::erase_if(fields, [](const FieldInfo& field) {
    return std::find(kSetByScaling.begin(), kSetByScaling.end(), field.name) != kSetByScaling.end();
  });
  return fields_of<ScalingOptions>() + fields;
}

std::vector<FieldInfo> sweep_trials_fields() { return fields_of<SweepTrialsChoice>(); }
std::vector<FieldInfo> bench_limits_fields() { return fields_of<LimitChoice>() + fields_of<JsonOutput>(); }

std::vector<FieldInfo> bench_all_reduce_fields() { return fields_of<JsonOutput>(); }

std::vector<FieldInfo> bench_ranks_fields() { return fields_of<JsonOutput>() + fields_of<RankSettings>(); }

}  // namespace lockstep::cli
