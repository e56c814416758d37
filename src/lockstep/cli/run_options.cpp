#include "lockstep/cli/run_options.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/device/isa.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/train/run/run_files.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kMostConfigBytes = 1 << 20;

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
    const auto run = train::read_manifest(record::RunPaths{options.output}.options());
    if (run)
      return with_context([&] { return "as the run in \"" + options.output + "\" began with"; },
                          [&] { device::pin_isa(field_text(run->options, "isa")); });
  }
  device::pin_isa(field_text(options, "isa"));
}

}  // namespace

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

train::Options inference_options(const Call& call) {
  Call of_inference = call;
  std::erase_if(of_inference.settings,
                [](const Setting& setting) { return !is_inference_option(setting.name); });
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
