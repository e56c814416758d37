#include "lockstep/view/internal/history.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

namespace lockstep::view {
namespace {

constexpr int64_t kMost = 1'000'000'000'000'000;

int64_t whole(const record::Event& event, std::string_view key) {
  const double value = record::number(event, key, 0);
  return value >= 1 && value <= static_cast<double>(kMost) ? static_cast<int64_t>(value) : 0;
}

// "photos/flowers/" is called "flowers".
std::string last_name(const std::string& path) {
  std::filesystem::path name(path);
  if (!name.has_filename()) name = name.parent_path();
  return name.filename().string();
}

// A checkpoint is said when it has been written, steps later. Messages have no step.
bool tells_position(const record::Event& event) {
  return event.kind == "step" || event.kind == "validation" || event.kind == "end";
}

struct Bounds {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void include(const std::vector<Point>& points) {
    for (const Point& point : points) include(point.value);
  }
};

}  // namespace

void History::add(const record::Event& event) {
  if (tells_position(event)) {
    status_.step = event.step;
    if (event.epoch > 0) status_.epoch = event.epoch;
  }
  if (event.kind == "plan") add_plan(event);
  if (event.kind == "step") add_step(event);
  if (event.kind == "validation") {
    validations_.push_back({event.step, event.epoch, record::number(event, "loss"),
                            record::number(event, "accuracy"), record::flag(event, "best")});
  }
}

void History::add_plan(const record::Event& event) {
  network_ = last_name(record::text(event, "network"));
  for (const char* key : {"dataset", "data", "folder"}) {
    if (data_.empty()) data_ = last_name(record::text(event, key));
  }
  if (whole(event, "time_steps") > 0)
    status_.samples = whole(event, "tbptt_length") > 0 ? "pieces" : "sequences";
  status_.max_epochs = whole(event, "max_epochs");
  status_.total_steps = whole(event, "total_steps");
  status_.steps_per_epoch = whole(event, "steps_per_epoch");
  if (status_.total_steps == 0) {
    const int64_t steps = status_.steps_per_epoch;
    if (steps > 0 && status_.max_epochs <= kMost / steps) status_.total_steps = steps * status_.max_epochs;
    const int64_t most = whole(event, "max_steps");
    if (most > 0) status_.total_steps = status_.total_steps > 0 ? std::min(status_.total_steps, most) : most;
  }
  // A sixtieth of the run looks like one place on the plot.
  const double window = std::clamp(static_cast<double>(status_.total_steps) / 60, 10.0, 200.0);
  loss_smoother_.set_window(window);
  accuracy_smoother_.set_window(window);
}

void History::add_step(const record::Event& event) {
  if (has_steps() && static_cast<double>(event.step) <= std::max(loss.last().step, accuracy.last().step))
    forget_from(event.step);
  if (has_steps() && event.epoch > 1 && (epoch_starts_.empty() || epoch_starts_.back().second < event.epoch))
    epoch_starts_.emplace_back(event.step - 1, event.epoch);
  const double step_loss = record::number(event, "loss");
  const double step_accuracy = record::number(event, "accuracy");
  status_.loss = loss_smoother_.add(step_loss);
  status_.accuracy = accuracy_smoother_.add(step_accuracy);
  status_.learning_rate = record::number(event, "learning_rate");
  status_.images_per_second = record::number(event, "images_per_second");
  status_.seconds_left = record::number(event, "seconds_left");
  add_peaks(event);
  loss.add(event.step, step_loss);
  smooth_loss.add(event.step, status_.loss);
  accuracy.add(event.step, step_accuracy);
  smooth_accuracy.add(event.step, status_.accuracy);
  learning_rate.add(event.step, status_.learning_rate);
}

// The least and the largest loss of the steps that were not logged.
void History::add_peaks(const record::Event& event) {
  std::array<std::pair<int64_t, double>, 2> peaks{
      std::pair{whole(event, "least_loss_step"), record::number(event, "least_loss")},
      std::pair{whole(event, "largest_loss_step"), record::number(event, "largest_loss")}};
  std::sort(peaks.begin(), peaks.end());
  for (const auto& [step, value] : peaks) {
    const bool follows = step > 0 && (loss.empty() || static_cast<double>(step) > loss.last().step);
    if (follows && step < event.step) loss.add(step, value);
  }
}

void History::forget_from(int64_t step) {
  for (Curve* curve : {&loss, &smooth_loss, &accuracy, &smooth_accuracy, &learning_rate})
    curve->forget_from(step);
  loss_smoother_.clear();
  accuracy_smoother_.clear();
  std::erase_if(validations_, [&](const Validation& validation) { return validation.step >= step; });
  std::erase_if(epoch_starts_, [&](const auto& start) { return start.first >= step; });
}

Axis step_axis(const History& history, int most_ticks) {
  Bounds bounds;
  for (const Curve* curve : {&history.loss, &history.accuracy}) {
    for (const Point& point : curve->points()) bounds.include(point.step);
  }
  for (const Validation& validation : history.validations())
    bounds.include(static_cast<double>(validation.step));
  auto [low, high] = bounds.low > bounds.high ? Bounds{0, 1} : bounds;
  // The axis of a run that begins at step 0 begins at 0.
  if (low <= std::max(1.0, (high - low) * 0.05)) low = 0;
  return make_axis(low, std::max(high, low + 1), most_ticks, false);
}

Axis loss_axis(const History& history, int most_ticks) {
  Bounds bounds;
  bounds.include(history.smooth_loss.points());
  for (const Validation& validation : history.validations()) bounds.include(validation.loss);
  if (bounds.low > bounds.high) return make_axis(0, 1, most_ticks, true);
  if (bounds.low >= 0 && bounds.low < 0.5 * bounds.high) bounds.low = 0;
  return make_axis(bounds.low, bounds.high, most_ticks, true);
}

Axis accuracy_axis(const History& history, int most_ticks) {
  Bounds bounds;
  bounds.include(history.smooth_accuracy.points());
  for (const Validation& validation : history.validations()) bounds.include(validation.accuracy);
  if (bounds.low > bounds.high) return make_axis(0, 1, most_ticks, true);
  if (bounds.low >= 0 && bounds.low < 0.5) bounds.low = 0;
  if (bounds.high > 0.5 && bounds.high <= 1) bounds.high = 1;
  return make_axis(bounds.low, bounds.high, most_ticks, true);
}

}  // namespace lockstep::view
