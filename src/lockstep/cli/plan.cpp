#include "lockstep/cli/forecast_text.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/cli/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/device/memory.h"
#include "lockstep/train/forecast.h"
#include "lockstep/train/prepare.h"

namespace lockstep::cli {

std::vector<FieldInfo> plan_fields() { return training_fields() + fields_of<train::ForecastOptions>() + fields_of<JsonOutput>(); }

int run_plan(const Call& call, Console& console) {
  const train::Options options = training_options(call).options;
  const auto asked = settings_of<train::ForecastOptions>(call);
  const bool json = settings_of<JsonOutput>(call).json;
  train::Job job;
  job.folder = call.words.front();
  device::keep_freed_memory();
  const train::Prepared prepared = train::prepare(job, options, /*dry=*/true);
  if (!json) console.print(plan_text(prepared.plan));
  Json printed = to_json(prepared.plan);
  if (!asked.forecast.empty()) {
    const StopSignals signals("");
    const train::StepCosts costs = train::measure_step(prepared, options, asked.forecast, signals.token());
    const train::Forecast forecast = train::make_forecast(prepared.plan, options, costs, asked);
    if (!json) console.print(forecast_text(forecast, prepared.plan));
    printed["forecast"] = to_json(forecast);
  }
  if (json) console.print(printed.dump(2) + "\n");
  return 0;
}

}  // namespace lockstep::cli
