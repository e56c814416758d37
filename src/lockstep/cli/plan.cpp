#include "lockstep/cli/plan.h"

#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/downloading.h"
#include "lockstep/cli/forecast_text.h"
#include "lockstep/cli/help.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/train/forecast/forecast.h"
#include "lockstep/train/planning/prepare.h"

namespace lockstep::cli {

namespace {

constexpr size_t kWidestValue = 40;  // wider values do not widen their column
constexpr size_t kNarrowestReason = 28;
constexpr int kNarrowest = 60;  // narrowest terminal for which lines are broken

}  // namespace

std::string plan_text(const std::vector<train::PlanLine>& lines, size_t width) {
  const auto columns = [](const std::string& text) { return static_cast<size_t>(width_of(text)); };
  size_t names = 0, values = 0;
  for (const train::PlanLine& line : lines) {
    names = std::max(names, columns(line.name));
    if (columns(line.value) <= kWidestValue) values = std::max(values, columns(line.value));
  }
  const size_t value_at = names + 2;
  const auto from = [&](size_t column, const std::string& text) {
    return width == 0 ? text : wrap(text, static_cast<int>(width - column), static_cast<int>(column));
  };
  std::string text;
  for (const train::PlanLine& line : lines) {
    text += line.name + std::string(value_at - columns(line.name), ' ') + from(value_at, line.value);
    const size_t reason_at = value_at + std::max(values, columns(line.value)) + 2;
    if (line.reason.empty()) {
      text += '\n';
    } else if (width == 0 || reason_at + std::min(kNarrowestReason, columns(line.reason)) <= width) {
      text +=
          std::string(reason_at - value_at - columns(line.value), ' ') + from(reason_at, line.reason) + "\n";
    } else {
      text += "\n" + std::string(value_at + 2, ' ') + from(value_at + 2, line.reason) + "\n";
    }
  }
  return text;
}

int run_plan(const Call& call, Console& console) {
  const auto [options, given] = training_options(call);
  offer_pretrained(options, console);
  const auto asked = settings_of<train::ForecastOptions>(call);
  const bool json = settings_of<JsonOutput>(call).json;
  train::TrainingRequest request;
  request.folder = call.words.front();
  request.given = given;
  const train::Prepared prepared = train::prepare(request, options, /*dry=*/true);
  for (const std::string& warning : prepared.plan.warnings) {
    const std::string text = "warning: " + warning;
    if (!json)
      console.print((console.is_terminal() ? wrap(text, std::max(kNarrowest, console.width()), 0) : text) +
                    "\n");
  }
  if (!json)
    console.print(
        plan_text(prepared.plan.lines,
                  console.is_terminal() ? static_cast<size_t>(std::max(kNarrowest, console.width())) : 0));
  Json printed = values_of(prepared.plan);
  if (!asked.forecast.empty()) {
    const launch::StopSignals signals("");
    if (console.note_is_terminal()) console.note("\nmeasuring this machine ...\n");
    const train::StepCosts costs = train::measure_step(prepared, asked.forecast, signals.token());
    const train::Forecast forecast = train::make_forecast(prepared.plan, costs, asked);
    if (!json) console.print(forecast_text(forecast, prepared.plan, console.table_width()));
    printed["forecast"] = to_json(forecast);
  }
  if (json) {
    Json& lines = printed["lines"] = Json::array();  // as a reader of the text sees them
    for (const train::PlanLine& line : prepared.plan.lines)
      lines.push_back({line.name, line.value, line.reason});
    console.print(printed.dump(2) + "\n");
  }
  return 0;
}

}  // namespace lockstep::cli
