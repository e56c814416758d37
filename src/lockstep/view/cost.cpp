#include "lockstep/view/cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "lockstep/base/text.h"
#include "lockstep/view/internal/drawing.h"

namespace lockstep::view {
namespace {

constexpr double kCostTop = 96;
constexpr double kCostHeight = 460;
constexpr double kLegendRow = 20;
constexpr int kLegendColumns = 3;
constexpr std::array<const char*, 10> kCurveColours{"#2a6fb0", "#d8701a", "#3f8f5e", "#a03f7f", "#7a6f1e",
                                                    "#5b54b8", "#c0392b", "#1f8a8a", "#8d6e4f", "#4a4a4a"};
constexpr std::array<double, 3> kSteps{1, 2, 5};
constexpr std::array<double, 9> kFineSteps{1, 1.5, 2, 3, 4, 5, 6, 7, 8};
constexpr size_t kFewTicks = 4;
constexpr const char* kBestColour = "#f5dfa8";
constexpr double kBestWidth = 10;

const char* curve_colour(size_t curve) { return kCurveColours[curve % kCurveColours.size()]; }
// Where the colours are used again.
const char* curve_dashes(size_t curve) {
  return curve < kCurveColours.size() ? "" : "stroke-dasharray=\"6 3\"";
}

// Multiples of the powers of ten that lie inside, as logarithms.
void add_ticks(Axis& axis, std::span<const double> steps) {
  axis.ticks.clear();
  for (int power = -6; power <= 9; ++power) {
    for (const double step : steps) {
      const double tick = std::log10(step) + power;
      if (tick > axis.low && tick < axis.high) axis.ticks.push_back(tick);
    }
  }
}

Axis log_axis(double low, double high) {
  Axis axis{.low = std::log10(low) - 0.05, .high = std::log10(high) + 0.05, .ticks = {}, .digits = 0};
  add_ticks(axis, kSteps);
  if (axis.ticks.size() < kFewTicks) add_ticks(axis, kFineSteps);
  return axis;
}

std::string tick_text(double tick) {
  const double value = std::pow(10, tick);
  return value >= 1 ? with_commas(std::llround(value)) : shortest(std::round(value * 1e6) / 1e6);
}

std::string hours_text(double tick) {
  const double hours = std::pow(10, tick);
  if (hours > 0.99) return tick_text(tick) + " h";
  const double minutes = hours * 60;
  return minutes > 0.99 ? shortest(std::round(minutes * 10) / 10) + " min"
                        : shortest(std::round(minutes * 600) / 10) + " s";
}

Panel panel_of(const std::vector<CostCurve>& curves) {
  double shortest_time = std::numeric_limits<double>::max(), longest = 0, least = shortest_time, most = 0;
  for (const CostCurve& curve : curves) {
    for (const CostPoint& point : curve.points) {
      shortest_time = std::min(shortest_time, point.hours);
      longest = std::max(longest, point.hours);
      least = std::min(least, point.dollars);
      most = std::max(most, point.dollars);
    }
  }
  if (longest <= 0) return {"cost-area", kCostTop, kCostHeight, log_axis(1, 10), log_axis(1, 10)};
  return {"cost-area", kCostTop, kCostHeight, log_axis(shortest_time, longest), log_axis(least, most)};
}

void draw_grid(Drawing& drawing, const Panel& panel) {
  for (const double tick : panel.y.ticks) {
    const double y = panel.down(tick);
    drawing.line(kPlotLeft, y, kPlotRight, y, drawing.colours().grid, 1);
    drawing.words(kPlotLeft - 8, y + 4, Anchor::end, "$" + tick_text(tick));
  }
  for (const double tick : panel.x.ticks) {
    const double x = panel.across(tick);
    drawing.line(x, panel.top, x, panel.bottom(), drawing.colours().grid, 1);
    drawing.words(x, panel.bottom() + 18, Anchor::middle, hours_text(tick));
  }
  drawing.line(kPlotLeft, panel.bottom(), kPlotRight, panel.bottom(), drawing.colours().faint, 1);
  drawing.line(kPlotLeft, panel.top, kPlotLeft, panel.bottom(), drawing.colours().faint, 1);
  drawing.words((kPlotLeft + kPlotRight) / 2, panel.bottom() + 40, Anchor::middle,
                "time of the training; the figures at the points are workers", drawing.colours().ink, 13,
                true);
}

// Below the curves: from the fastest to the cheapest.
void draw_best(Drawing& drawing, const Panel& panel, const std::vector<CostCurve>& curves) {
  std::vector<Point> best;
  for (const CostCurve& curve : curves) {
    for (const CostPoint& point : curve.points) {
      if (point.best) best.push_back({std::log10(point.hours), std::log10(point.dollars)});
    }
  }
  std::sort(best.begin(), best.end(), [](const Point& a, const Point& b) { return a.step < b.step; });
  if (best.size() > 1) drawing.path(panel.places(best), kBestColour, kBestWidth);
}

void draw_curve(Drawing& drawing, const Panel& panel, const CostCurve& curve, size_t number) {
  std::vector<Point> points;
  for (const CostPoint& point : curve.points)
    points.push_back({std::log10(point.hours), std::log10(point.dollars)});
  if (points.size() > 1) drawing.path(panel.places(points), curve_colour(number), 1.6, curve_dashes(number));
  for (size_t i = 0; i < points.size(); ++i) {
    const double x = panel.across(points[i].step), y = panel.down(points[i].value);
    if (curve.points[i].marked) drawing.dot(x, y, 9, drawing.colours().paper, drawing.colours().ink);
    drawing.dot(x, y, 4, curve_colour(number));
    const double away = curve.points[i].marked ? 9 : 6;
    drawing.words(x + away, y - away, Anchor::start, curve.points[i].label, drawing.colours().faint, 10);
  }
}

void draw_legend(Drawing& drawing, const Panel& panel, const std::vector<CostCurve>& curves) {
  const double column = (kPlotRight - kPlotLeft) / kLegendColumns;
  for (size_t i = 0; i < curves.size(); ++i) {
    const double x = kPlotLeft + column * static_cast<double>(i % kLegendColumns);
    const double y = panel.bottom() + 68 + kLegendRow * static_cast<double>(i / kLegendColumns);
    drawing.path({{x, y - 4}, {x + 22, y - 4}}, curve_colour(i), 2, curve_dashes(i));
    drawing.words(x + 30, y, Anchor::start, curves[i].name, drawing.colours().ink);
  }
}

}  // namespace

std::string cost_svg(const std::vector<CostCurve>& curves, const CostText& text) {
  const auto rows = static_cast<double>((curves.size() + kLegendColumns - 1) / kLegendColumns);
  Drawing drawing(kCostTop + kCostHeight + 80 + kLegendRow * rows);
  const Panel panel = panel_of(curves);
  drawing.words(kPlotLeft, 36, Anchor::start, text.title, drawing.colours().ink, 18, true);
  drawing.words(kPlotLeft, 58, Anchor::start, text.note);
  drawing.words(kPlotLeft, 74, Anchor::start,
                "pale band: no other is both faster and cheaper; ring: what was asked for");
  draw_grid(drawing, panel);
  draw_best(drawing, panel, curves);
  for (size_t i = 0; i < curves.size(); ++i) draw_curve(drawing, panel, curves[i], i);
  draw_legend(drawing, panel, curves);
  return drawing.finish();
}

}  // namespace lockstep::view
