#include "lockstep/cli/asked_options.h"

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_reason.h"
#include "lockstep/cli/command_options.h"

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

}  // namespace lockstep::cli
