#include "lockstep/view/internal/sweep_drawings.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/columns_of_text.h"
#include "lockstep/base/counted.h"
#include "lockstep/base/text.h"
#include "lockstep/view/internal/markup.h"

namespace lockstep::view {
namespace {

// In pixels.
constexpr double kAxisTop = 76;
constexpr double kAxisHeight = 300;
constexpr double kAxisSide = 90;
constexpr double kBelowAxis = kAxisTop + kAxisHeight + 26;  // where lines pass without a value
constexpr double kParallelHeight = kBelowAxis + 16;
constexpr double kResultsTop = 16;
constexpr double kResultsHeight = 250;
constexpr double kComparedTop = 24;
constexpr double kComparedHeight = 280;
constexpr double kSmallWidth = 96;
constexpr double kSmallHeight = 24;

constexpr double kTopShare = 0.1;
constexpr size_t kMostChoiceNames = 20;
constexpr size_t kMostDots = 30;
constexpr size_t kMostLargeDots = 100;
constexpr int kWidestLabel = 22;
constexpr size_t kComparedColours = 8;
constexpr std::array kComparedDashes{"", "7 4", "2 4", "12 3 2 3"};  // of one round of colours after another

// Where the value of a place lies on an axis of numbers.
double value_at(const sweep::ParallelAxis& axis, double place) {
  if (!axis.log) return axis.low + place * (axis.high - axis.low);
  return std::exp(std::log(axis.low) + place * (std::log(axis.high) - std::log(axis.low)));
}

// A line passes below the axis of a parameter that does not count for its trial.
double down(double place) { return std::isnan(place) ? kBelowAxis : kAxisTop + (1 - place) * kAxisHeight; }

using Ticks = std::vector<std::pair<double, std::string>>;

// Places and names of the ticks.
Ticks ticks_of(const sweep::ParallelCoordinates& parallel, size_t at) {
  const sweep::ParallelAxis& axis = parallel.axes[at];
  Ticks ticks;
  if (axis.choices.empty()) {
    for (int i = 0; i <= 4; ++i) ticks.emplace_back(i / 4.0, as_rate(value_at(axis, i / 4.0)));
  } else if (axis.choices.size() <= kMostChoiceNames) {
    const auto count = static_cast<double>(axis.choices.size());
    for (size_t i = 0; i < axis.choices.size(); ++i)
      ticks.emplace_back((static_cast<double>(i) + 0.5) / count, shortened(axis.choices[i], kWidestLabel));
  }
  if (std::ranges::any_of(parallel.lines, [&](const auto& line) { return std::isnan(line.places[at]); }))
    ticks.emplace_back(sweep::kAbsent, "none");
  return ticks;
}

// Beside the result, which is the last axis, there are no lines on the right.
void name_ticks(Drawing& drawing, const Ticks& ticks, double x, bool is_result) {
  for (const auto& [place, name] : ticks)
    drawing.words(x + (is_result ? 8 : -8), down(place) + 4, is_result ? Anchor::start : Anchor::end, name,
                  drawing.colours().ink, 11);
}

void draw_axis(Drawing& drawing, const std::string& name, const Ticks& ticks, double x, bool is_result) {
  drawing.line(x, kAxisTop, x, kAxisTop + kAxisHeight, drawing.colours().faint, 1);
  for (const auto& [place, tick] : ticks)
    drawing.line(x - 4, down(place), x, down(place), drawing.colours().faint, 1);
  drawing.words(x, kAxisTop - 18, Anchor::middle, shortened(name, kWidestLabel), drawing.colours().ink, 13,
                is_result);
}

void draw_line(Drawing& drawing, const sweep::ParallelLine& line, const std::vector<double>& across,
               const std::string& title) {
  const bool is_top = line.rank <= kTopShare;
  drawing.raw("<g><title>" + escaped(title) + "</title>");
  std::vector<std::pair<double, double>> places;
  for (size_t i = 0; i < line.places.size(); ++i) places.emplace_back(across[i], down(line.places[i]));
  drawing.path(places, is_top ? drawing.colours().held_out : drawing.colours().train, is_top ? 2 : 1.3,
               "stroke-opacity=\"" + fixed(is_top ? 0.9 : 0.12 + 0.4 * (1 - line.rank), 2) + "\"");
  drawing.raw("</g>\n");
}

bool is_beyond(const Panel& panel, double value) { return value < panel.y.low || value > panel.y.high; }

double down_inside(const Panel& panel, double value) {
  return panel.down(std::clamp(value, panel.y.low, panel.y.high));
}

// As steps, of the trials that were trained in full; to the last trial.
std::vector<std::pair<double, double>> best_until_then(const std::vector<const sweep::Row*>& rows,
                                                       bool maximize, const Panel& panel) {
  std::vector<std::pair<double, double>> places;
  double best = maximize ? -HUGE_VAL : HUGE_VAL;
  for (const sweep::Row* row : rows) {
    const double x = panel.across(static_cast<double>(row->trial));
    if (!places.empty()) places.emplace_back(x, places.back().second);
    if (row->state != sweep::TrialState::ended) continue;
    best = maximize ? std::max(best, *row->value) : std::min(best, *row->value);
    places.emplace_back(x, down_inside(panel, best));
  }
  return places;
}

// With a name for those who hear the page.
std::string named(std::string svg, const std::string& name) {
  const std::string begin = "<svg ";
  return begin + "role=\"img\" aria-label=\"" + escaped(name) + "\" " + svg.substr(begin.size());
}

// As CSS writes it: a variable that compared_style() sets for light and dark.
std::string compared_colour(size_t index) {
  return "var(--compared-" + std::to_string(index % kComparedColours) + ")";
}

std::string compared_dashes(size_t index) {
  if (index < kComparedColours) return "";
  return std::string("stroke-dasharray=\"") +
         kComparedDashes[index / kComparedColours % kComparedDashes.size()] + "\"";
}

}  // namespace

std::string draw_parallel(const sweep::ParallelCoordinates& parallel, const PageColours& colours) {
  Drawing drawing(kParallelHeight, colours);
  std::vector<double> across;
  const size_t count = parallel.axes.size();
  for (size_t i = 0; i < count; ++i)
    across.push_back(count == 1 ? kPageWidth / 2
                                : kAxisSide + static_cast<double>(i) * (kPageWidth - 2 * kAxisSide) /
                                                  static_cast<double>(count - 1));
  for (size_t i = parallel.lines.size(); i-- > 0;) {
    const sweep::ParallelLine& line = parallel.lines[i];
    draw_line(drawing, line, across,
              "trial " + std::to_string(line.trial) + ": " + parallel.axes.back().name + " " +
                  as_rate(line.result));
  }
  const int64_t beyond = parallel.axes.back().beyond;
  std::vector<Ticks> ticks;
  for (size_t i = 0; i < count; ++i) ticks.push_back(ticks_of(parallel, i));
  // Names of choices lie on the lines.
  drawing.raw("<g style=\"paint-order:stroke;stroke-width:4px;stroke:" + colours.paper + "\">\n");
  for (size_t i = 0; i < count; ++i) name_ticks(drawing, ticks[i], across[i], i + 1 == count);
  drawing.raw("</g>\n");
  for (size_t i = 0; i < count; ++i)
    draw_axis(drawing, parallel.axes[i].name, ticks[i], across[i], i + 1 == count);
  drawing.words(kAxisSide, 24, Anchor::start,
                "orange, thick: the best tenth of the trials; blue, thin: the others" +
                    (beyond > 0 ? "; " + counted(beyond, "result") + " beyond the end of the last axis" : ""),
                drawing.colours().faint, 12);
  return named(drawing.finish(), "parallel coordinates of " + counted(std::ssize(parallel.lines), "trial"));
}

std::string draw_results(const sweep::Table& table, const PageColours& colours) {
  std::vector<const sweep::Row*> rows;
  for (const sweep::Row& row : table.rows) {
    if (row.value && std::isfinite(*row.value) && row.state != sweep::TrialState::failed)
      rows.push_back(&row);
  }
  if (rows.empty()) return "";
  const sweep::ShownResults shown = sweep::shown_results(table);
  if (!std::isfinite(shown.high - shown.low)) return "";
  Axis trials =
      make_axis(static_cast<double>(rows.front()->trial), static_cast<double>(rows.back()->trial), 9, false);
  std::erase_if(trials.ticks, [](double tick) { return tick != std::round(tick); });
  const Panel panel{"results-area", kResultsTop, kResultsHeight, trials,
                    make_axis(shown.low, shown.high, 6, true)};
  Drawing drawing(kResultsTop + kResultsHeight + 46, colours);
  draw_axes(drawing, panel, table.spec.metric(), true);
  drawing.path(best_until_then(rows, table.spec.maximizes(), panel), colours.train, 1.6,
               "stroke-opacity=\"0.6\"");
  const double radius = rows.size() <= kMostLargeDots ? 4 : 2.3;
  int64_t beyond = 0;
  for (const sweep::Row* row : rows) {
    const bool is_full = row->state == sweep::TrialState::ended;
    drawing.raw("<g><title>trial " + std::to_string(row->trial) + ": " + sweep::result_text(*row->value) +
                "</title>");
    const double x = panel.across(static_cast<double>(row->trial)), y = down_inside(panel, *row->value);
    const std::string& fill = is_full ? colours.train : colours.paper;
    if (is_beyond(panel, *row->value)) {
      drawing.raw("<path fill=\"" + fill + "\" stroke=\"" + colours.train + "\" d=\"M" + fixed(x, 1) + "," +
                  fixed(y, 1) + "l-5," + (*row->value > panel.y.high ? "9" : "-9") + "h10z\"/>");
      ++beyond;
    } else {
      drawing.dot(x, y, radius, fill, colours.train);
    }
    drawing.raw("</g>\n");
  }
  if (beyond > 0)
    drawing.words(kPlotRight, kResultsTop + kResultsHeight + 38, Anchor::end,
                  "triangles: " + counted(beyond, "trial") + " beyond the axis");
  drawing.words((kPlotLeft + kPlotRight) / 2, kResultsTop + kResultsHeight + 38, Anchor::middle, "trial",
                colours.ink, 13, true);
  return named(drawing.finish(), "results of " + counted(std::ssize(rows), "trial"));
}

ValueRange range_of_curves(const sweep::Table& table, const std::vector<TrialCurve>& curves) {
  const sweep::ShownResults shown = sweep::shown_results(table);
  const auto is_usual = [&](int64_t trial) {
    const auto row = std::ranges::find(table.rows, trial, &sweep::Row::trial);
    if (row == table.rows.end() || !row->value)
      return row == table.rows.end() || row->state != sweep::TrialState::failed;
    return row->state != sweep::TrialState::failed && *row->value >= shown.low && *row->value <= shown.high;
  };
  ValueRange usual{HUGE_VAL, -HUGE_VAL}, all = usual;
  for (const TrialCurve& curve : curves) {
    const bool counts = is_usual(curve.trial);
    for (const auto& [step, value] : curve.points) {
      all = {std::min(all.low, value), std::max(all.high, value)};
      if (counts) usual = {std::min(usual.low, value), std::max(usual.high, value)};
    }
  }
  return usual.low <= usual.high ? usual : all;
}

std::string draw_compared(const std::vector<TrialCurve>& curves, const std::string& name, ValueRange range,
                          const PageColours& colours) {
  double last = 1;
  for (const TrialCurve& curve : curves) {
    if (!curve.points.empty()) last = std::max(last, static_cast<double>(curve.points.back().first));
  }
  if (!std::isfinite(range.low)) return "";
  Drawing drawing(kComparedTop + kComparedHeight + 52, colours);
  const Panel panel{"compared-area", kComparedTop, kComparedHeight, make_axis(0, last, 9, false),
                    make_axis(range.low, range.high, 6, true)};
  draw_axes(drawing, panel, name, true);
  std::vector<std::string> beyond;
  begin_clip(drawing, panel);
  for (size_t i = 0; i < curves.size(); ++i) {
    std::vector<std::pair<double, double>> places;
    for (const auto& [step, value] : curves[i].points)
      places.emplace_back(panel.across(static_cast<double>(step)), panel.down(value));
    if (std::ranges::any_of(curves[i].points, [&](const auto& one) { return is_beyond(panel, one.second); }))
      beyond.push_back(std::to_string(curves[i].trial));
    drawing.raw("<g><title>trial " + std::to_string(curves[i].trial) + "</title>");
    drawing.path(places, compared_colour(i), 2, compared_dashes(i));
    if (places.size() <= kMostDots) {
      for (const auto& [x, y] : places) drawing.dot(x, y, 3, compared_colour(i));
    }
    drawing.raw("</g>\n");
  }
  drawing.raw("</g>\n");
  if (!beyond.empty())
    drawing.words(
        kPlotRight, kComparedTop - 8, Anchor::end,
        "beyond the axis: trial" + std::string(beyond.size() > 1 ? "s " : " ") + join(beyond, ", "));
  drawing.words((kPlotLeft + kPlotRight) / 2, kComparedTop + kComparedHeight + 38, Anchor::middle, "step",
                drawing.colours().ink, 13, true);
  return named(drawing.finish(), name + " of the compared trials against steps");
}

std::string draw_small(const TrialCurve& curve, ValueRange range) {
  if (curve.points.empty()) return "";
  const auto last = static_cast<double>(curve.points.back().first);
  std::string places = "M";
  const double span = range.high > range.low ? range.high - range.low : 1;
  for (const auto& [step, value] : curve.points) {
    const double x = 2 + (kSmallWidth - 4) * (last > 0 ? static_cast<double>(step) / last : 0);
    const double y = 2 + (kSmallHeight - 4) * (1 - std::clamp((value - range.low) / span, 0.0, 1.0));
    if (places.size() > 1) places += " ";
    places += fixed(x, 1) + "," + fixed(y, 1);
  }
  if (curve.points.size() == 1) places += " h0.1";
  return "<svg class=\"small\" viewBox=\"0 0 " + fixed(kSmallWidth, 0) + " " + fixed(kSmallHeight, 0) +
         "\" aria-hidden=\"true\"><path d=\"" + places + "\"/></svg>";
}

std::string compared_key(size_t index) {
  return "<svg class=\"key\" viewBox=\"0 0 28 8\" aria-hidden=\"true\"><path d=\"M0,4H28\" stroke=\"" +
         compared_colour(index) + "\" stroke-width=\"3\" " + compared_dashes(index) + "/></svg>";
}

std::string_view compared_style() {
  return R"(:root{--compared-0:#2a6fb0;--compared-1:#d8701a;--compared-2:#2f855a;--compared-3:#b83280;
  --compared-4:#6b46c1;--compared-5:#8a6d1f;--compared-6:#1f8a96;--compared-7:#c0392b}
@media(prefers-color-scheme:dark){:root{--compared-0:#58a6ff;--compared-1:#f0883e;--compared-2:#5cc98a;
  --compared-3:#f778ba;--compared-4:#b392f0;--compared-5:#d2a73b;--compared-6:#4fd1dc;--compared-7:#ff7b72}}
)";
}

}  // namespace lockstep::view
