#include "lockstep/view/internal/timing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "lockstep/base/text.h"

namespace lockstep::view {
namespace {

constexpr int kWidestTimingBar = 24;
constexpr int kFiguresWidth = 36;  // width of a row without its bar

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle), values.end());
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle] +
          *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle))) /
         2;
}

void keep(double value, size_t place, std::vector<double>& kept) {
  if (place < kept.size()) {
    kept[place] = value;
  } else {
    kept.push_back(value);
  }
}

std::string milliseconds(double seconds) {
  return padded_left(fixed(seconds * 1e3, seconds < 0.1 ? 2 : 1), 9) + " ms";
}

constexpr size_t kExchange = 3;
static_assert(std::string_view(kStepParts[kExchange]) == "exchange");

// What is hidden is not part of a step's time.
std::string exchange_text(double seen, double hidden, int64_t steps) {
  const double all = seen + hidden;
  const double share = all > 0 ? hidden / all : 0;
  return "exchange " + fixed(all / static_cast<double>(steps) * 1e3, 2) + " ms, " + fixed(share * 100, 0) +
         " % hidden behind backward";
}

}  // namespace

void Timing::add(const record::Event& step) {
  if (!past_first_) {
    past_first_ = true;
    return;
  }
  const size_t place = static_cast<size_t>(step_count_++) % kKeptSteps;
  for (size_t part = 0; part < kStepParts.size(); ++part) {
    const double seconds = record::number(step, std::string(kStepParts[part]) + "_seconds", 0);
    if (!std::isfinite(seconds)) continue;
    sums_[part] += seconds;
    keep(seconds, place, kept_[part]);
  }
  hidden_exchange_ += record::number(step, "hidden_exchange_seconds", 0);
  keep(record::number(step, "page_faults", 0), place, kept_faults_);
}

std::vector<Line> Timing::table(const record::Event& end, int columns, bool colour) const {
  const double total = std::accumulate(sums_.begin(), sums_.end(), 0.0);
  if (step_count_ == 0 || total <= 0) return {};
  std::vector<Line> lines;
  lines.push_back(Line(colour)
                      .add("a step's time", Tint::strong)
                      .add("  median of " + with_commas(step_count_), Tint::dim));
  const int bar_width = std::clamp(columns - kFiguresWidth, 0, kWidestTimingBar);
  double sum_of_medians = 0;
  for (size_t part = 0; part < kStepParts.size(); ++part) {
    const double middle = median(kept_[part]);
    sum_of_medians += middle;
    const double share = sums_[part] / total;
    std::string bar;
    for (int i = 0; i < static_cast<int>(std::lround(share * bar_width)); ++i) bar += "━";
    lines.push_back(Line(colour)
                        .add("  " + padded_right(kStepParts[part], 10) + milliseconds(middle) +
                             padded_left(fixed(share * 100, 1), 7) + " %  ")
                        .add(bar, Tint::train));
  }
  lines.push_back(
      Line(colour).add("  " + padded_right("all", 10) + milliseconds(sum_of_medians) + "  100.0 %"));
  lines.push_back(Line(colour).add("  " + exchange_text(sums_[kExchange], hidden_exchange_, step_count_)));
  lines.push_back(
      Line(colour).add("  page faults" + padded_left(fixed(median(kept_faults_), 0), 7) + " a step"));
  const double peak = record::number(end, "peak_memory_bytes", 0);
  if (peak > 0)
    lines.push_back(Line(colour).add("  peak memory " + padded_left(as_bytes(std::llround(peak)), 12)));
  return lines;
}

}  // namespace lockstep::view
