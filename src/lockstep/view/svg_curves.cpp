// Draws the curves of a run as one self-contained SVG file.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/view/internal/curves_drawing.h"
#include "lockstep/view/views.h"

namespace lockstep::view {
namespace {

constexpr auto kRewriteInterval = std::chrono::seconds(2);

// In pixels.
constexpr double kAccuracyTop = 104;
constexpr double kPanelHeight = 240;
constexpr double kRateHeight = 96;
constexpr double kGap = 44;
constexpr double kFoot = 52;

constexpr size_t kMostEpochBands = 60;
constexpr size_t kMostEpochNames = 20;
constexpr size_t kMostDots = 150;

void draw_epochs(Drawing& drawing, const Panel& panel, const History& history, bool names) {
  std::vector<std::pair<int64_t, int64_t>> starts = history.epoch_starts();
  if (starts.size() > kMostEpochBands) return;
  const int64_t first = starts.empty() ? history.status().epoch : starts.front().second - 1;
  starts.insert(starts.begin(), {static_cast<int64_t>(panel.x.low), first});
  const size_t name_every = starts.size() / kMostEpochNames + 1;
  for (size_t i = 0; i < starts.size(); ++i) {
    const double from = panel.across(static_cast<double>(starts[i].first));
    const double to =
        i + 1 < starts.size() ? panel.across(static_cast<double>(starts[i + 1].first)) : kPlotRight;
    if (starts[i].second % 2 == 0)
      drawing.rectangle(from, panel.top, to - from, panel.height, drawing.colours().band);
    if (!names || starts.size() < 2 || i % name_every != 0) continue;
    drawing.words((from + to) / 2, panel.top - 7, Anchor::middle,
                  (i == 0 ? "epoch " : "") + std::to_string(starts[i].second), drawing.colours().faint, 11);
  }
}

void draw_held_out(Drawing& drawing, const Panel& panel, const History& history, double Validation::*value) {
  Curve curve;  // of as few points as a page can show
  const Validation* best = nullptr;
  for (const Validation& validation : history.validations()) {
    if (!std::isfinite(validation.*value)) continue;
    curve.add(validation.step, validation.*value);
    if (validation.best) best = &validation;
  }
  const std::vector<Point> points = curve.points();
  drawing.path(panel.places(points), drawing.colours().held_out, 1.4, "stroke-dasharray=\"4 3\"");
  const size_t every = points.size() / kMostDots + 1;
  for (size_t i = 0; i < points.size(); i += every)
    drawing.dot(panel.across(points[i].step), panel.down(points[i].value), 4, drawing.colours().held_out);
  if (best == nullptr) return;
  const double x = panel.across(static_cast<double>(best->step));
  drawing.dot(x, panel.down(best->*value), 6.5, "none", drawing.colours().held_out);
}

void draw_panel(Drawing& drawing, const Panel& panel, const History& history, const Curve& each_step,
                const Curve& smooth, double Validation::*held_out) {
  begin_clip(drawing, panel);
  drawing.path(panel.places(each_step.points()), drawing.colours().train, 1, "stroke-opacity=\"0.4\"");
  drawing.path(panel.places(smooth.points()), drawing.colours().train, 2);
  drawing.raw("</g>\n");
  draw_held_out(drawing, panel, history, held_out);
}

void draw_legend(Drawing& drawing, const History& history) {
  double x = kPlotRight;
  const double y = 36;
  const auto entry = [&](std::string_view name, const auto& sample) {
    x -= static_cast<double>(name.size()) * 7.2;
    drawing.words(x, y, Anchor::start, name, drawing.colours().ink);
    x -= 30;
    sample();
    x -= 18;
  };
  if (!history.validations().empty()) {
    entry("best", [&] {
      drawing.dot(x + 11, y - 4, 4, drawing.colours().held_out);
      drawing.dot(x + 11, y - 4, 6.5, "none", drawing.colours().held_out);
    });
    entry("held-out", [&] {
      drawing.path({{x, y - 4}, {x + 22, y - 4}}, drawing.colours().held_out, 1.4,
                   "stroke-dasharray=\"4 3\"");
      drawing.dot(x + 11, y - 4, 4, drawing.colours().held_out);
    });
  }
  entry("each step", [&] {
    drawing.path({{x, y - 4}, {x + 22, y - 4}}, drawing.colours().train, 1, "stroke-opacity=\"0.4\"");
  });
  entry("training, smoothed", [&] {
    drawing.path({{x, y - 4}, {x + 22, y - 4}}, drawing.colours().train, 2);
  });
}

std::string curves_title(const History& history) {
  if (history.network().empty()) return history.data().empty() ? "training" : history.data();
  return history.network() + (history.data().empty() ? "" : " on " + history.data());
}

std::string subtitle_of(const History& history) {
  const Status& status = history.status();
  std::string text = "epoch " + with_commas(status.epoch) +
                     (status.max_epochs > 0 ? " of " + with_commas(status.max_epochs) : "") + ", step " +
                     with_commas(status.step) +
                     (status.total_steps > 0 ? " of " + with_commas(status.total_steps) : "");
  const Validation* best = nullptr;
  for (const Validation& validation : history.validations()) {
    if (validation.best) best = &validation;
  }
  if (best != nullptr)
    text += "  ·  best held-out accuracy " + as_accuracy(best->accuracy) + " in epoch " +
            with_commas(best->epoch);
  return text;
}

}  // namespace

std::string draw_curves(const History& history, const PageColours& colours, const std::string& id) {
  const bool with_rate = !history.learning_rate.empty();
  const double loss_top = kAccuracyTop + kPanelHeight + kGap - 16;
  const double rate_top = loss_top + kPanelHeight + kGap - 16;
  const double height = (with_rate ? rate_top + kRateHeight : loss_top + kPanelHeight) + kFoot;
  const Axis x = step_axis(history, 9);
  const Panel accuracy{id + "accuracy-area", kAccuracyTop, kPanelHeight, x, accuracy_axis(history, 6)};
  const Panel loss{id + "loss-area", loss_top, kPanelHeight, x, loss_axis(history, 6)};

  Drawing drawing(height, colours);
  drawing.words(kPlotLeft, 36, Anchor::start, curves_title(history), drawing.colours().ink, 18, true);
  drawing.words(kPlotLeft, 58, Anchor::start, subtitle_of(history), drawing.colours().faint, 13);
  draw_legend(drawing, history);
  draw_epochs(drawing, accuracy, history, true);
  draw_axes(drawing, accuracy, "accuracy", false);
  draw_panel(drawing, accuracy, history, history.accuracy, history.smooth_accuracy, &Validation::accuracy);
  draw_epochs(drawing, loss, history, false);
  draw_axes(drawing, loss, "loss", !with_rate);
  draw_panel(drawing, loss, history, history.loss, history.smooth_loss, &Validation::loss);
  if (with_rate) {
    double highest = 0;
    for (const Point& point : history.learning_rate.points()) highest = std::max(highest, point.value);
    const Panel rate{id + "rate-area", rate_top, kRateHeight, x,
                     make_axis(0, highest > 0 ? highest : 1, 3, true)};
    draw_epochs(drawing, rate, history, false);
    draw_axes(drawing, rate, "learning rate", true);
    drawing.path(rate.places(history.learning_rate.points()), drawing.colours().rate, 1.3);
  }
  drawing.words((kPlotLeft + kPlotRight) / 2, height - 14, Anchor::middle, "step", drawing.colours().ink, 13,
                true);
  return drawing.finish();
}

namespace {

class SvgCurves final : public View {
 public:
  explicit SvgCurves(const std::filesystem::path& run_folder)
      : path_(record::RunPaths{run_folder}.curves()) {}

  // The curves of a resumed run begin where the run began.
  void add_earlier(const record::Event& event) override { history_.add(event); }

  void show(const record::Event& event) override {
    history_.add(event);
    changed_ = true;
    const auto now = std::chrono::steady_clock::now();
    if (history_.has_steps() && (!last_write_ || now - *last_write_ >= kRewriteInterval)) write(now);
  }

  void finish() override {
    if (changed_) write(std::chrono::steady_clock::now());
  }

 private:
  // Renamed into place, so that no reader sees half a file. Not synced, because it can be drawn again from
  // the event log.
  void write(std::chrono::steady_clock::time_point now) {
    last_write_ = now;
    changed_ = false;
    if (failed_) return;
    std::filesystem::path part = path_;
    part += ".part";
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    file << draw_curves(history_);
    file.close();
    if (file) {
      rename_path(part, path_);
      return;
    }
    failed_ = true;
    const int reason = errno;
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    throw errno_error(reason, "write", path_.string());
  }

  std::filesystem::path path_;
  History history_;
  std::optional<std::chrono::steady_clock::time_point> last_write_;
  bool changed_ = false;
  bool failed_ = false;
};

}  // namespace

std::unique_ptr<View> svg_curves(const std::filesystem::path& run_folder) {
  return std::make_unique<SvgCurves>(run_folder);
}

}  // namespace lockstep::view
