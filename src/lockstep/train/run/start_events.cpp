#include "lockstep/train/run/start_events.h"

#include <algorithm>

#include <torch/nn/module.h>

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
  log.say({.kind = "plan", .values = std::move(values)});
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
  Json all = Json::array();
  for (const data::BadSample& sample : skipped) all.push_back({sample.source, sample.reason});
  log.message("skipped " + std::to_string(skipped.size()) + " files that are not readable images", "warning");
  log.say({.kind = "skipped", .values = {{"files", std::move(all)}}});
}

}  // namespace

void say_start(RunLog& log, const StartReport& report) {
  say_plan(log, report);
  say_resume(log, report.start, report.prepared.plan.step.accumulate);
  if (!report.warning.empty()) log.message(report.warning, "warning");
  for (const std::string& note : report.prepared.notes) log.message(note, "info");
  warn_of_weights(log, report);
  warn_of_skipped(log, report.prepared.skipped);
}

}  // namespace lockstep::train
