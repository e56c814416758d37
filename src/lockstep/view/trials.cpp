#include "lockstep/view/trials.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <vector>

#include "lockstep/base/columns_of_text.h"
#include "lockstep/base/counted.h"
#include "lockstep/base/text.h"
#include "lockstep/view/internal/history.h"
#include "lockstep/view/internal/status_line.h"
#include "lockstep/view/internal/terminal.h"

namespace lockstep::view {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kTrialsRedrawInterval = std::chrono::milliseconds(100);
constexpr int kWidestName = 24;
constexpr int kWidestCurve = 24;
constexpr int kLeastFigures = 26;  // columns that the figures need beside name and curve

// One character for each stretch of steps: its last accuracy as a height, from 0 to 1.
Line curve_of(const History& history, int width, bool colour) {
  static constexpr std::array<const char*, 8> kHeights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const auto points = history.smooth_accuracy.points();
  Line line(colour);
  if (points.empty()) return line.space(width);
  const auto total =
      static_cast<double>(std::max({int64_t{1}, history.status().total_steps, history.status().step}));
  const auto column_of = [&](const Point& point) {
    return static_cast<size_t>(std::clamp(point.step / total * width, 0.0, width - 1.0));
  };
  std::vector<int> heights(static_cast<size_t>(width), -1);
  for (const Point& point : points)
    heights[column_of(point)] = static_cast<int>(std::clamp(point.value * 8, 0.0, 7.0));
  const size_t last = column_of(points.back());
  for (size_t i = 1; i <= last; ++i) {
    if (heights[i] < 0) heights[i] = heights[i - 1];
  }
  std::string text;
  for (const int height : heights) text += height < 0 ? " " : kHeights[static_cast<size_t>(height)];
  return line.add(text, Tint::train);
}

std::string shown_name(const std::string& name) { return shortened(printable(name), kWidestName); }

// "epoch 3/8  loss 0.0812  accuracy 0.9751  held-out accuracy 0.9700"
std::string in_words(const History& history) {
  const Status& status = history.status();
  std::string text = "epoch " + std::to_string(status.epoch);
  if (status.max_epochs > 0) text += "/" + std::to_string(status.max_epochs);
  if (std::isfinite(status.loss)) text += "  loss " + as_loss(status.loss);
  if (std::isfinite(status.accuracy)) text += "  accuracy " + as_accuracy(status.accuracy);
  if (!history.validations().empty())
    text += "  held-out accuracy " + as_accuracy(history.validations().back().accuracy);
  return text;
}

std::string end_in_words(const record::Event& event, const History& history) {
  if (event.kind == "failed") return "failed: " + printable(first_line(record::text(event, "error")));
  const double accuracy = record::number(event, "accuracy");
  const std::string reason = record::text(event, "reason");
  std::string text =
      reason.empty() || reason == "finished" ? "finished" : "ended (" + printable(reason) + ")";
  if (std::isfinite(accuracy))
    text += std::string(history.validations().empty() ? ", accuracy " : ", held-out accuracy ") +
            as_accuracy(accuracy);
  const int64_t epochs = history.status().epoch;
  return text + " after " + counted(epochs, "epoch") + " in " +
         fixed(record::number(event, "seconds", 0), 1) + " s";
}

}  // namespace

/// A trial as its line shows it.
struct ShownTrial {
  std::string name;
  History history;
};

struct Trials::State {
  explicit State(std::FILE* out) : terminal(out) {}

  Terminal terminal;
  std::vector<ShownTrial> running;  // in the order in which they began
  int name_width = 0;
  Clock::time_point drawn{};

  ShownTrial& trial_named(const std::string& name) {
    const auto found = std::find_if(running.begin(), running.end(),
                                    [&](const ShownTrial& trial) { return trial.name == name; });
    if (found != running.end()) return *found;
    name_width = std::max(name_width, width_of(shown_name(name)));
    running.push_back({name, {}});
    return running.back();
  }

  Line head(const ShownTrial& trial) const {
    Line line(terminal.colour());
    return line.add(padded_right(shown_name(trial.name), name_width), Tint::strong).space(2);
  }

  Line with_curve(const ShownTrial& trial) const {
    Line line = head(trial);
    const int curve = std::min(kWidestCurve, terminal.size().columns - 1 - line.width() - 2 - kLeastFigures);
    if (curve >= 4) line.append(curve_of(trial.history, curve, terminal.colour())).space(2);
    return line;
  }

  Line progress_line(const ShownTrial& trial) const {
    Line line = with_curve(trial);
    return line.append(
        status_bar(trial.history.status(), terminal.size().columns - line.width(), terminal.colour()));
  }

  void redraw() {
    std::vector<Line> block;
    const auto rows = static_cast<size_t>(std::max(1, terminal.size().rows - 2));
    const size_t shown = running.size() <= rows ? running.size() : rows - 1;
    for (size_t i = 0; i < shown; ++i) block.push_back(progress_line(running[i]));
    if (shown < running.size())
      block.push_back(
          Line(terminal.colour()).add("and " + std::to_string(running.size() - shown) + " more", Tint::dim));
    terminal.draw_block(block);
    drawn = Clock::now();
  }

  void redraw_if_due() {
    if (terminal.interactive() && Clock::now() - drawn >= kTrialsRedrawInterval) redraw();
  }

  // A trial that has ended is a line that stays.
  void end(const ShownTrial& ended, const record::Event& event) {
    const std::string words = end_in_words(event, ended.history);
    const Line line = terminal.interactive() ? with_curve(ended).add(words) : head(ended).add(words);
    std::erase_if(running, [name = ended.name](const ShownTrial& trial) { return trial.name == name; });
    if (!terminal.interactive()) return terminal.print(line);
    terminal.erase_block();
    terminal.print(line);
    redraw();
  }
};

Trials::Trials(std::FILE* out) : state_(std::make_unique<State>(out)) {}

Trials::~Trials() {
  if (state_->terminal.interactive() && !state_->running.empty()) state_->redraw();
  state_->terminal.keep_block();
}

void Trials::show(const std::string& name, const record::Event& event) {
  State& state = *state_;
  ShownTrial& trial = state.trial_named(name);
  trial.history.add(event);
  if (event.kind == "end" || event.kind == "failed") return state.end(trial, event);
  if (event.kind == "validation" && !state.terminal.interactive())
    state.terminal.print(state.head(trial).add(in_words(trial.history)));
  if (event.kind == "message" && record::text(event, "level") == "warning") {
    state.terminal.print(
        state.head(trial).add("warning: ", Tint::warning).add(printable(record::text(event, "text"))));
  }
  state.redraw_if_due();
}

}  // namespace lockstep::view
