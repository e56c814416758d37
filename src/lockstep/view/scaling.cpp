#include "lockstep/view/scaling.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/counted.h"
#include "lockstep/base/text.h"
#include "lockstep/view/internal/drawing.h"

namespace lockstep::view {
namespace {

constexpr double kTop = 84;
constexpr double kAccuracyHeight = 320;
constexpr double kRateTop = kTop + kAccuracyHeight + 84;
constexpr double kPanelRateHeight = 200;
constexpr double kHeight = kRateTop + kPanelRateHeight + 56;
constexpr double kMinutes = 300;  // seconds from which the axis is in minutes
constexpr size_t kMostPlaces = 1000;
// Length of the smoothing window, in logged steps.
constexpr double kPlaces = 60;
constexpr double kLeastWindow = 5;
constexpr double kMostWindow = 200;
constexpr std::array<const char*, 6> kColours{"#2a6fb0", "#d8701a", "#3f8f5e",
                                              "#a03f7f", "#7a6f1e", "#5b54b8"};

const char* colour_of(size_t run) { return kColours[run % kColours.size()]; }
std::string name_of(int64_t workers) { return counted(workers, "worker"); }

std::vector<Point> thinned(const ScalingRun& run, double unit) {
  std::vector<Point> points;
  const std::vector<double> accuracy = run.smoothed_accuracy();
  const size_t every = accuracy.size() / kMostPlaces + 1;
  for (size_t i = 0; i < accuracy.size(); ++i) {
    if (i % every == 0 || i + 1 == accuracy.size())
      points.push_back({run.steps()[i].seconds / unit, accuracy[i]});
  }
  return points;
}

void draw_accuracy(Drawing& drawing, const std::vector<ScalingRun>& runs) {
  double longest = 0, lowest = 1;
  for (const ScalingRun& run : runs) {
    longest = std::max(longest, run.seconds());
    for (const double accuracy : run.smoothed_accuracy()) lowest = std::min(lowest, accuracy);
  }
  const double unit = longest >= kMinutes ? 60 : 1;
  const Panel panel{"accuracy-area", kTop, kAccuracyHeight,
                    make_axis(0, longest > 0 ? longest / unit : 1, 9, false),
                    make_axis(lowest < 1 ? lowest : 0, 1, 6, true)};
  draw_axes(drawing, panel, "training accuracy, smoothed", true);
  begin_clip(drawing, panel);
  std::vector<std::vector<Point>> curves;
  for (const ScalingRun& run : runs) curves.push_back(thinned(run, unit));
  for (size_t i = 0; i < runs.size(); ++i) drawing.path(panel.places(curves[i]), colour_of(i), 2);
  drawing.raw("</g>\n");
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!curves[i].empty())
      drawing.dot(panel.across(curves[i].back().step), panel.down(curves[i].back().value), 4, colour_of(i));
  }
  drawing.words((kPlotLeft + kPlotRight) / 2, panel.bottom() + 40, Anchor::middle,
                unit > 1 ? "minutes" : "seconds", drawing.colours().ink, 13, true);
}

void draw_rates(Drawing& drawing, const std::vector<ScalingRun>& runs) {
  if (runs.empty()) return;
  double most = 0, highest = 0;
  const double each = runs.front().images_per_second() / static_cast<double>(runs.front().workers());
  for (const ScalingRun& run : runs) {
    most = std::max(most, static_cast<double>(run.workers()));
    highest = std::max({highest, run.images_per_second(), each * static_cast<double>(run.workers())});
  }
  Axis across{.low = 0, .high = most + 1, .ticks = {}, .digits = 0};
  for (const ScalingRun& run : runs) across.ticks.push_back(static_cast<double>(run.workers()));
  const Panel panel{"rate-area", kRateTop, kPanelRateHeight, across,
                    make_axis(0, highest > 0 ? highest * 1.08 : 1, 5, true)};
  draw_axes(drawing, panel, "images/s", true);
  drawing.path({{panel.across(0), panel.down(0)}, {panel.across(most), panel.down(each * most)}},
               drawing.colours().faint, 1.2, "stroke-dasharray=\"5 4\"");
  std::vector<Point> points;
  for (const ScalingRun& run : runs)
    points.push_back({static_cast<double>(run.workers()), run.images_per_second()});
  drawing.path(panel.places(points), drawing.colours().ink, 1.4);
  for (size_t i = 0; i < runs.size(); ++i) {
    const double x = panel.across(points[i].step), y = panel.down(points[i].value);
    drawing.dot(x, y, 5, colour_of(i));
    drawing.words(x, y + 21, Anchor::middle, as_speed(points[i].value), drawing.colours().ink);
  }
  drawing.words((kPlotLeft + kPlotRight) / 2, panel.bottom() + 40, Anchor::middle, "workers",
                drawing.colours().ink, 13, true);
  drawing.words(kPlotRight, panel.top - 8, Anchor::end,
                "dashed: every worker as fast as with " + name_of(runs.front().workers()));
}

void draw_names(Drawing& drawing, const std::vector<ScalingRun>& runs) {
  double x = kPlotRight;
  for (size_t i = runs.size(); i-- > 0;) {
    const std::string name = name_of(runs[i].workers());
    x -= static_cast<double>(name.size()) * 6.6;
    drawing.words(x, 58, Anchor::start, name, drawing.colours().ink);
    drawing.path({{x - 28, 54}, {x - 6, 54}}, colour_of(i), 2);
    x -= 46;
  }
}

}  // namespace

void ScalingRun::add(const record::Event& event) {
  if (!start_) start_ = event.time;
  seconds_ = std::max(seconds_, event.time - *start_);
  if (event.kind == "hash") weights_ = record::text(event, "weights");
  if (event.kind == "end") images_per_second_ = record::number(event, "images_per_second", 0);
  if (event.kind != "step") return;
  steps_.push_back({.epoch = event.epoch,
                    .step = event.step,
                    .seconds = event.time - *start_,
                    .loss = record::number(event, "loss"),
                    .accuracy = record::number(event, "accuracy"),
                    .images_per_second = record::number(event, "images_per_second")});
}

// Over logged steps, like the curves of the run itself.
std::vector<double> ScalingRun::smoothed_accuracy() const {
  Smoother smoother(std::clamp(static_cast<double>(steps_.size()) / kPlaces, kLeastWindow, kMostWindow));
  std::vector<double> result;
  for (const Step& step : steps_)
    result.push_back(std::isfinite(step.accuracy) ? smoother.add(step.accuracy)
                     : result.empty()             ? 0
                                                  : result.back());
  return result;
}

std::optional<double> ScalingRun::seconds_to(double accuracy) const {
  const std::vector<double> smoothed = smoothed_accuracy();
  const auto found =
      std::find_if(smoothed.begin(), smoothed.end(), [&](double value) { return value >= accuracy; });
  return found == smoothed.end()
             ? std::nullopt
             : std::optional(steps_[static_cast<size_t>(found - smoothed.begin())].seconds);
}

std::string scaling_csv(const std::vector<ScalingRun>& runs) {
  std::string text = "workers,epoch,step,seconds,loss,accuracy,smoothed_accuracy,images_per_second\n";
  for (const ScalingRun& run : runs) {
    const std::vector<double> smoothed = run.smoothed_accuracy();
    for (size_t i = 0; i < smoothed.size(); ++i) {
      const ScalingRun::Step& step = run.steps()[i];
      text += std::to_string(run.workers()) + "," + std::to_string(step.epoch) + "," +
              std::to_string(step.step) + "," + fixed(step.seconds, 3) + "," + shortest(step.loss) + "," +
              shortest(step.accuracy) + "," + fixed(smoothed[i], 6) + "," + fixed(step.images_per_second, 1) +
              "\n";
    }
  }
  return text;
}

std::string scaling_svg(const std::vector<ScalingRun>& runs, const std::string& title) {
  Drawing drawing(kHeight);
  drawing.words(kPlotLeft, 36, Anchor::start, title, drawing.colours().ink, 18, true);
  draw_names(drawing, runs);
  draw_accuracy(drawing, runs);
  draw_rates(drawing, runs);
  return drawing.finish();
}

}  // namespace lockstep::view
