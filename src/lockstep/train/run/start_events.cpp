#include "lockstep/train/run/start_events.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <torch/nn/module.h>

#include "lockstep/base/host.h"
#include "lockstep/base/text.h"
#include "lockstep/base/version.h"
#include "lockstep/device/inventory.h"
#include "lockstep/device/isa.h"
#include "lockstep/io/address.h"
#include "lockstep/nn/state.h"
#include "lockstep/nn/weights_file.h"

namespace lockstep::train {
namespace {

constexpr size_t kMostNamed = 10;  // skipped files

void say_plan(RunLog& log, const StartReport& report) {
  const Plan& plan = report.prepared.plan;
  for (const std::string& warning : plan.warnings) log.message(warning, "warning");
  Json values = values_of(plan);
  values["folder"] = report.folder;
  values["output"] = report.start.paths().folder.string();
  Json lines = Json::array();
  for (const PlanLine& line : plan.lines) lines.push_back({line.name, line.value, line.reason});
  values["lines"] = std::move(lines);
  log.say({.kind = record::PlanOfRun::kind, .values = std::move(values)});
}

// The words that the process was started with.
std::vector<std::string> arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

// An address stays one; its public part, without what may be secret.
std::string absolute_place(const std::string& folder) {
  if (folder.empty()) return folder;
  const std::string name = io::public_name(folder);
  std::error_code code;
  return io::is_address(name) ? name : std::filesystem::absolute(name, code).lexically_normal().string();
}

void say_resume(RunLog& log, const RunStart& start, int64_t accumulate) {
  if (!start.options.resume) return;
  if (!start.checkpoint) return log.message("the run has no checkpoint yet, so it starts again", "info");
  const RunState& state = start.checkpoint->state;
  log.message("continuing after step " + std::to_string(state.step) +
                  (state.pieces > accumulate
                       ? ", each shard in " + std::to_string(state.pieces) + " pieces since memory ran out"
                       : ""),
              "info");
}

void warn_of_weights(RunLog& log, const StartReport& report) {
  const std::string& file = report.start.options.weights;
  if (file.empty() || report.start.checkpoint) return;
  const std::string bad = nn::not_finite(nn::state_of(*report.prepared.prototype.module));
  if (!bad.empty()) log.message("the weights in \"" + file + "\" have " + bad, "warning");
}

void warn_of_skipped(RunLog& log, const std::vector<data::BadSample>& skipped) {
  if (skipped.empty()) return;
  for (size_t i = 0; i < std::min(kMostNamed, skipped.size()); ++i)
    log.message("skipped \"" + skipped[i].source + "\": " + skipped[i].reason, "warning");
  record::Skipped all;
  for (const data::BadSample& sample : skipped) all.files.push_back({sample.source, sample.reason});
  log.message(skipped.size() == 1 ? "skipped 1 file that is not a readable image"
                                  : "skipped " + with_commas(static_cast<int64_t>(skipped.size())) +
                                        " files that are not readable images",
              "warning");
  log.say(all);
}

}  // namespace

record::Environment environment_here(const std::string& data, int64_t ranks, int64_t workers) {
  const device::Inventory here = device::inspect();
  record::Environment environment{.arguments = arguments(),
                                  .version = std::string(version()),
                                  .build = device::arithmetic_fingerprint(),
                                  .host = host_name(),
                                  .process = ::getpid(),
                                  .data = absolute_place(data),
                                  .cores = here.cores,
                                  .ranks = ranks,
                                  .workers = workers};
  std::error_code code;
  environment.working_folder = std::filesystem::current_path(code).string();
  for (const device::Gpu& gpu : here.gpus) environment.gpus.push_back(gpu.name);
  return environment;
}

void say_start(RunLog& log, const StartReport& report) {
  record::Environment environment =
      environment_here(report.folder, report.ranks, report.prepared.plan.machine.workers);
  if (!report.words.empty()) environment.arguments = report.words;
  log.say(environment);
  say_plan(log, report);
  say_resume(log, report.start, report.prepared.plan.step.accumulate);
  for (const std::string& warning : report.warnings) {
    if (!warning.empty()) log.message(warning, "warning");
  }
  for (const std::string& note : report.prepared.notes) log.message(note, "info");
  warn_of_weights(log, report);
  warn_of_skipped(log, report.prepared.skipped);
}

}  // namespace lockstep::train
