#include "lockstep/view/internal/text_curves.h"

#include <algorithm>
#include <cmath>

#include "lockstep/view/internal/text_panel.h"
#include "lockstep/view/views.h"

namespace lockstep::view {
namespace {

constexpr int kLeastPanelWidth = 34;
constexpr int kLeastPanelHeight = 7;
constexpr int kWidestPanel = 90;

std::vector<Point> marks_of(const History& history, double Validation::*value) {
  std::vector<Point> marks;
  for (const Validation& validation : history.validations()) {
    if (std::isfinite(validation.*value))
      marks.push_back({static_cast<double>(validation.step), validation.*value});
  }
  return marks;
}

std::vector<TextPanel> panels_of(const History& history, int panel_width, int panel_height) {
  const int most_steps = std::clamp((panel_width - kPanelFrameColumns) / 7, 2, 8);
  const int most_values = std::clamp((panel_height - kPanelFrameRows) / 2, 2, 6);
  std::vector<TextPanel> panels;
  const Axis x = step_axis(history, most_steps);
  auto accuracy_marks = marks_of(history, &Validation::accuracy);
  if (!history.smooth_accuracy.empty() || !accuracy_marks.empty()) {
    panels.push_back({"accuracy", x, accuracy_axis(history, most_values), history.smooth_accuracy.points(),
                      std::move(accuracy_marks)});
  }
  auto loss_marks = marks_of(history, &Validation::loss);
  if (!history.smooth_loss.empty() || !loss_marks.empty()) {
    panels.push_back(
        {"loss", x, loss_axis(history, most_values), history.smooth_loss.points(), std::move(loss_marks)});
  }
  return panels;
}

Line legend(const History& history, int width, bool colour) {
  Line line(colour);
  line.space(kPanelFrameColumns - 1);
  line.add("⠒⠒", Tint::train).add(width >= 44 ? " training, smoothed" : " training", Tint::dim);
  if (!history.validations().empty()) line.add("   ●", Tint::held_out).add(" held-out", Tint::dim);
  return line;
}

}  // namespace

std::vector<Line> draw_curves(const History& history, int width, int height, bool colour) {
  if (!history.has_steps() && history.validations().empty()) return {};
  const bool beside = width >= 2 * kLeastPanelWidth + 2;
  int panel_width = std::min(beside ? (width - 2) / 2 : width, kWidestPanel);
  int panel_height = beside ? height - 1 : (height - 1) / 2;
  std::vector<TextPanel> panels = panels_of(history, panel_width, panel_height);
  // If only one of the two fits, accuracy is more useful.
  if (!beside && panel_height < kLeastPanelHeight && panels.size() == 2) panels.pop_back();
  if (panels.size() == 1) {
    panel_width = std::min(width, kWidestPanel);
    panel_height = height - 1;
    panels = {panels_of(history, panel_width, panel_height).front()};
  }
  if (panel_height < kLeastPanelHeight || panel_width < 24) return {};

  std::vector<Line> lines;
  for (const TextPanel& panel : panels) {
    std::vector<Line> drawn = draw_panel(panel, panel_width, panel_height, colour);
    if (lines.empty() || !beside) {
      lines.insert(lines.end(), drawn.begin(), drawn.end());
      continue;
    }
    for (size_t i = 0; i < lines.size(); ++i)
      lines[i].space(panel_width - lines[i].width() + 2).append(drawn[i]);
  }
  lines.push_back(legend(history, width, colour));
  return lines;
}

std::string text_curves(const std::vector<record::Event>& events, int width, int height) {
  History history;
  for (const record::Event& event : events) history.add(event);
  std::string text;
  for (const Line& line : draw_curves(history, width, height, false)) text += line.text() + "\n";
  return text;
}

}  // namespace lockstep::view
