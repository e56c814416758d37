#include "lockstep/cli/asked_options.h"

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_reason.h"
#include "lockstep/cli/arguments.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/verbs.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kMostConfigBytes = 1 << 20;

std::vector<std::string> read_options_file(const std::filesystem::path& path, train::Options& options) {
  try {
    const Json json = parse_json(read_file(path, kMostConfigBytes), KeyTwice::refused);
    return read_json(json, options, "\"" + path.string() + "\"");
  } catch (const JsonError& error) {
    throw Error(ErrorCode::corrupt_data,
                "cannot read options from \"" + path.string() + "\": " + reason_of(error),
                "write it like {\"max-epochs\": 5, \"optimizer\": \"adam\"}");
  }
}

}  // namespace

Call read_train_words(const std::vector<std::string>& words) {
  return read_arguments(*std::ranges::find(builtin_verbs(), "train", &Verb::name), words);
}

bool AskedOptions::has(std::string_view name) const {
  return std::find(given.begin(), given.end(), name) != given.end();
}

AskedOptions asked_options(const Call& call) {
  AskedOptions asked;
  const ConfigFile file = settings_of<ConfigFile>(call);
  if (!file.config.empty()) asked.given = read_options_file(file.config, asked.options);
  for (std::string& name : take_settings(call, asked.options)) asked.given.push_back(std::move(name));
  const bool drops = asked.has("lr-drop-factor") || asked.has("lr-drop-period");
  if (drops && !asked.has("lr-schedule")) asked.options.lr_schedule = train::ScheduleKind::piecewise;
  return asked;
}

void check_places(const Call& call) {
  for (const std::string name : {"config", "output", "test", "validation", "weights"}) {
    if (call.text_of(name) != "") continue;
    train::Options of_file;
    const auto file = call.text_of("config");
    if (file && !file->empty() && std::ranges::count(read_options_file(*file, of_file), name) > 0) continue;
    throw Error(ErrorCode::invalid_option, "option --" + name + " is empty",
                "a variable of the shell may not be set; name a file or a folder, or leave the option out");
  }
}

}  // namespace lockstep::cli
