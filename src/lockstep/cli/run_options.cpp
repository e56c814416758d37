#include "lockstep/cli/run_options.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/device/isa.h"
#include "lockstep/io/run_folder.h"
#include "lockstep/train/run/run_files.h"

namespace lockstep::cli {
namespace {

struct ConfigFile {
  std::string config;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Options from a file");
    field("config", self.config,
          "JSON file of options by these names, e.g. {\"max-epochs\": 5}; the command line overrides it");
  };
};

struct InferenceOption {
  std::string_view name;
  std::string_view help = {};  ///< replaces the help for training, where that would mislead
};
constexpr std::array<InferenceOption, 10> kInferenceOptions{{
    {"labels"},
    {"on-bad-sample", "what to do with an unreadable image: end the command, or skip, report and count it"},
    {"mini-batch-size", "number of samples computed at once; auto is only for training"},
    {"execution"},
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
constexpr int64_t kMostConfigBytes = 1 << 20;

const InferenceOption* inference_option(std::string_view name) {
  const auto found = std::find_if(kInferenceOptions.begin(), kInferenceOptions.end(),
                                  [&](const InferenceOption& option) { return option.name == name; });
  return found == kInferenceOptions.end() ? nullptr : &*found;
}

std::vector<std::string> read_options_file(const std::filesystem::path& path, train::Options& options) {
  try {
    const Json json = parse_json(read_file(path, kMostConfigBytes));
    return read_json(json, options, "\"" + path.string() + "\"");
  } catch (const JsonError& error) {
    const std::string reason =
        error.byte > 0 ? "not valid JSON at byte " + std::to_string(error.byte) : error.what();
    throw Error(ErrorCode::corrupt_data, "cannot read options from \"" + path.string() + "\": " + reason,
                "write it like {\"max-epochs\": 5, \"optimizer\": \"adam\"}");
  }
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// At a resume, the run's own --isa: the libraries choose their instructions once, before anything else of the
// run is read.
void pin_isa(const train::Options& options, const std::vector<std::string>& given) {
  if (options.resume && !options.output.empty() && !has(given, "isa")) {
    const auto run = train::read_manifest(io::RunPaths{options.output}.options());
    if (run)
      return with_context([&] { return "as the run in \"" + options.output + "\" began with"; },
                          [&] { device::pin_isa(field_text(run->options, "isa")); });
  }
  device::pin_isa(field_text(options, "isa"));
}

}  // namespace

std::vector<FieldInfo> operator+(std::vector<FieldInfo> fields, const std::vector<FieldInfo>& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

std::vector<FieldInfo> training_fields() { return fields_of<train::Options>() + fields_of<ConfigFile>(); }

AskedOptions training_options(const Call& call) {
  train::Options options;
  std::vector<std::string> names;
  const ConfigFile file = settings_of<ConfigFile>(call);
  if (!file.config.empty()) names = read_options_file(file.config, options);
  for (std::string& name : take_settings(call, options)) names.push_back(std::move(name));

  const bool drops = has(names, "lr-drop-factor") || has(names, "lr-drop-period");
  if (drops && !has(names, "lr-schedule")) options.lr_schedule = train::ScheduleKind::piecewise;
  pin_isa(options, names);
  return {options, names};
}

std::vector<FieldInfo> inference_fields() {
  std::vector<FieldInfo> fields = fields_of<train::Options>();
  std::erase_if(fields, [](const FieldInfo& field) { return inference_option(field.name) == nullptr; });
  for (FieldInfo& field : fields) {
    if (const std::string_view help = inference_option(field.name)->help; !help.empty()) field.help = help;
  }
  return fields;
}

train::Options inference_options(const Call& call) {
  Call of_inference = call;
  std::erase_if(of_inference.settings,
                [](const Setting& setting) { return inference_option(setting.name) == nullptr; });
  const auto options = settings_of<train::Options>(of_inference);
  if (options.mini_batch_size.is_auto())
    throw Error(ErrorCode::invalid_option, "--mini-batch-size auto is only for training",
                "give a number, or remove the option");
  device::pin_isa(field_text(options, "isa"));
  return options;
}

comm::Joining joining_of(const Call& call, Console& console) {
  const auto settings = settings_of<RankSettings>(call);
  return {
      .kind = settings.communicator,
      .waiting = {.limit = std::chrono::seconds(settings.join_timeout),
                  .tell = [&console](const std::string& what) { console.note("lockstep: " + what + "\n"); }}};
}

}  // namespace lockstep::cli
