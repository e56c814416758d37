#include "lockstep/view/internal/status_line.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/text.h"

namespace lockstep::view {
namespace {

// The parts of a line of some width; the loss is in all of them.
struct Layout {
  int bar;  // its minimum width
  bool step;
  bool learning_rate;
  bool speed;
  bool accuracy;
  bool time_left;
  bool full_words;
};
constexpr std::array<Layout, 7> kLayouts{{
    {16, true, true, true, true, true, true},
    {12, true, false, true, true, true, true},
    {8, false, false, true, true, true, true},
    {8, false, false, true, true, true, false},
    {8, false, false, false, true, true, false},
    {0, false, false, false, true, true, false},
    {0, false, false, false, true, false, false},
}};
constexpr int kWidestBar = 40;

std::string out_of(int64_t done, int64_t total) {
  const std::string text = with_commas(done);
  if (total <= 0) return text;
  const std::string whole = with_commas(total);
  return padded_left(text, width_of(whole)) + "/" + whole;
}

// Figures with fixed widths, so that the line does not jump.
Line figures(const Status& status, const Layout& layout, bool colour) {
  Line line(colour);
  const auto figure = [&](std::string_view label, const std::string& value, Tint tint = Tint::plain) {
    line.space(line.width() > 0 ? 2 : 0);
    if (!label.empty()) line.add(std::string(label) + " ", Tint::dim);
    line.add(value, tint);
  };
  figure(layout.full_words ? "epoch" : "", out_of(status.epoch, status.max_epochs));
  if (layout.step) figure("step", out_of(status.step, status.total_steps));
  figure("loss", as_loss(status.loss), std::isfinite(status.loss) ? Tint::plain : Tint::warning);
  if (layout.accuracy && std::isfinite(status.accuracy))
    figure(layout.full_words ? "accuracy" : "acc", as_accuracy(status.accuracy));
  if (layout.learning_rate && std::isfinite(status.learning_rate))
    figure("lr", padded_right(as_rate(status.learning_rate), 7));
  if (layout.speed && std::isfinite(status.images_per_second)) {
    figure("", padded_left(as_speed(status.images_per_second), 5));
    line.add(layout.full_words ? " " + status.samples + "/s" : "/s", Tint::dim);
  }
  if (layout.time_left && std::isfinite(status.seconds_left)) {
    figure("", padded_left(as_duration(status.seconds_left), 4));
    if (layout.full_words) line.add(" left", Tint::dim);
  }
  return line;
}

void add_bar(Line& line, double share, int width) {
  const auto halves = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * width * 2));
  std::string done;
  for (int i = 0; i < halves / 2; ++i) done += "━";
  if (halves % 2 == 1) done += "╸";
  std::string rest;
  for (int i = width_of(done); i < width; ++i) rest += "─";
  line.add(done, Tint::train).add(rest, Tint::dim);
}

Line only_epoch(const Status& status, int columns, bool colour) {
  Line line(colour);
  return line.add(
      out_of(status.epoch, status.max_epochs).substr(0, static_cast<size_t>(std::max(0, columns - 1))));
}

}  // namespace

Line status_bar(const Status& status, int columns, bool colour) {
  for (const Layout& layout : kLayouts) {
    const Line words = figures(status, layout, colour);
    const int bar_least = status.total_steps > 0 ? layout.bar : 0;
    const int room = columns - 1 - words.width() - (bar_least > 0 ? 2 : 0);
    if (room < bar_least) continue;
    if (bar_least == 0) return words;
    Line line(colour);
    add_bar(line, static_cast<double>(status.step) / static_cast<double>(status.total_steps),
            std::min(room, kWidestBar));
    line.space(2);
    return line.append(words);
  }
  return only_epoch(status, columns, colour);
}

Line status_words(const Status& status) { return figures(status, kLayouts.front(), false); }

Line status_words_within(const Status& status, int columns) {
  for (const Layout& layout : kLayouts) {
    Line words = figures(status, layout, false);
    if (words.width() < columns) return words;
  }
  return only_epoch(status, columns, false);
}

}  // namespace lockstep::view
