#include "lockstep/studio/about_run.h"

#include "lockstep/base/seconds.h"
#include "lockstep/record/process_use.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/state.h"
#include "lockstep/record/status_file.h"
#include "lockstep/studio/command_words.h"

namespace lockstep::studio {
namespace {

// "time" tells how far apart two answers are.
Json process_json(const std::filesystem::path& folder) {
  const auto status = record::read_status(folder);
  const auto use = status ? record::use_of(status->writer) : std::nullopt;
  if (!use) return nullptr;
  return {{"time", now_seconds()},
          {"process", status->writer.process},
          {"processor_seconds", use->processor_seconds},
          {"memory_bytes", use->memory_bytes},
          {"threads", use->threads}};
}

// Of what a run has said; other programs may say anything in its events.
bool is_train(const Json& said) {
  const auto environment = said.find("environment");
  if (environment == said.end() || !environment->is_object()) return true;
  const Json words = environment->value("arguments", Json::array());
  return !words.is_array() || words.size() < 2 || words[1] == "train";
}

}  // namespace

bool reads_requests(const std::filesystem::path& folder) {
  std::error_code code;
  return std::filesystem::exists(record::RunPaths{folder}.status(), code);
}

Json about_run(const std::string& id, const Parts& parts) {
  const record::RunSummary summary = parts.runs.summary_of(id);
  const std::filesystem::path folder = parts.runs.folder_of(id);
  const auto log = parts.runs.log_of(id);
  Json json = log->said();
  json["id"] = id;
  json["run"] = to_json(summary);
  json["curves"] = log->names();
  const record::StateOfRun state = record::state_of(folder);
  json["state"] = enum_names(state.state)[static_cast<size_t>(state.state)];
  json["reason"] = state.reason;
  json["hint"] = state.hint;
  json["reads_requests"] = reads_requests(folder);
  if (state.state == record::RunState::running || state.state == record::RunState::stopping)
    json["process"] = process_json(folder);
  const record::RunPaths paths{folder};
  std::error_code code;
  json["has_report"] = std::filesystem::is_regular_file(paths.report(), code);
  json["has_weights"] = std::filesystem::is_regular_file(paths.weights(), code);
  if (is_train(json) && !summary.data.empty())
    json["resume"] = parts.commands.shown(resume_words(folder, summary));
  json["remove"] = parts.commands.shown({"runs", "remove", folder.string(), "--yes"});
  json["report"] = parts.commands.shown({"report", folder.string()});
  return json;
}

}  // namespace lockstep::studio
