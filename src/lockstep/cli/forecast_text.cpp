#include "lockstep/cli/forecast_text.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/help.h"

namespace lockstep::cli {
namespace {

constexpr double kMinute = 60;
constexpr const char* kLegend =
    "  * an estimate that was not measured here: more cores, GPUs or machines, other speeds, or another "
    "mini-batch";

std::string milliseconds(double seconds) {
  return fixed(seconds * 1e3, seconds < 0.01 ? 2 : seconds < 1 ? 1 : 0);
}
std::string duration(double seconds) {
  return seconds < kMinute ? fixed(seconds, seconds < 10 ? 2 : 1) + " s" : as_duration(seconds);
}
std::string rate(double seconds_each) {
  return seconds_each > 0 ? with_commas(std::llround(1 / seconds_each)) + "/s" : "-";
}
std::string speed(double images_per_second) {
  return images_per_second < 100 ? fixed(images_per_second, 1) : with_commas(std::llround(images_per_second));
}

std::string curve(const std::vector<double>& seconds) {
  std::string text = milliseconds(seconds.front()) + " ms";
  if (seconds.size() > 1)
    text += ", " + milliseconds(seconds.back()) + " ms with " + std::to_string(seconds.size()) +
            " workers at once";
  return text;
}

std::string source(train::ReadFrom from) {
  return from == train::ReadFrom::decode  ? "decoded"
         : from == train::ReadFrom::cache ? "from the cache"
                                          : "from memory";
}

std::string measured(const train::StepCosts& costs, const train::Plan& plan, int width) {
  std::vector<std::vector<std::string>> rows;
  rows.push_back(
      {"a shard of " + std::to_string(costs.shard_samples), curve(costs.shard), "forward and backward"});
  rows.push_back({"exchange", curve(costs.exchange),
                  "the tree of " + with_commas(plan.network.learned_count) + " learnables, and the update"});
  if (costs.feature_sample > 0)
    rows.push_back({"frozen layers", rate(costs.feature_sample) + " per worker", "once, in the first epoch"});
  const std::string where =
      costs.parallel_reads > 0 ? ", " + std::to_string(costs.parallel_reads) + " reads at once" : " per core";
  if (costs.first_from != train::ReadFrom::memory)
    rows.push_back({"reading", rate(costs.first_read) + where,
                    source(costs.first_from) + "; in later epochs " + source(costs.later_from)});
  rows.push_back(
      {"copying", rate(costs.copy) + " per core", "augmentation, and copying into the mini-batch"});
  return in_columns_within(width, rows, "lll");
}

}  // namespace

std::string forecast_text(const train::Forecast& forecast, const train::Plan& plan, int width) {
  std::vector<std::vector<std::string>> rows{{"workers", "first epoch", "later epochs", "whole run",
                                              "images/s", "speed-up", "efficiency", "ms a step: compute",
                                              "exchange", "read", "bottleneck"}};
  std::vector<std::vector<std::string>> advice;
  for (const train::ForecastRow& row : forecast.rows) {
    const std::string workers = std::to_string(row.workers) + (row.assumed ? "*" : "");
    rows.push_back({workers, duration(row.first_epoch), duration(row.later_epoch), duration(row.run),
                    speed(row.images_per_second), fixed(row.speed_up, 2),
                    fixed(100 * row.efficiency, 0) + " %", milliseconds(row.compute),
                    milliseconds(row.exchange), milliseconds(row.read), row.bottleneck});
    advice.push_back({workers, row.advice});
  }
  std::string text = "\nmeasured here\n" + measured(forecast.costs, plan, width) + "\nforecast\n" +
                     in_columns_within(width, rows, "rrrrrrrrrrl");
  const bool starred = std::any_of(forecast.rows.begin(), forecast.rows.end(),
                                   [](const train::ForecastRow& row) { return row.assumed; });
  if (starred) text += (width == 0 ? kLegend : wrap(kLegend, width, 4)) + "\n";
  text += "\nto train faster, by number of workers\n" + in_columns_within(width, advice, "rl");
  for (const std::string& warning : forecast.warnings)
    text += "\n" + (width == 0 ? "warning: " + warning : wrap("warning: " + warning, width, 2));
  return text + (forecast.warnings.empty() ? "" : "\n");
}

}  // namespace lockstep::cli
