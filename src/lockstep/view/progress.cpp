#include <chrono>
#include <cmath>
#include <optional>

#include "lockstep/base/counted.h"
#include "lockstep/base/text.h"
#include "lockstep/view/internal/history.h"
#include "lockstep/view/internal/status_line.h"
#include "lockstep/view/internal/terminal.h"
#include "lockstep/view/internal/text_curves.h"
#include "lockstep/view/internal/timing.h"
#include "lockstep/view/internal/validation_table.h"
#include "lockstep/view/views.h"

namespace lockstep::view {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr auto kPlotInterval = std::chrono::milliseconds(400);
constexpr auto kLineInterval = std::chrono::seconds(2);
constexpr auto kFeatureInterval = std::chrono::seconds(10);
constexpr int kPlotHeight = 14;
constexpr int kEcho =
    2;  // columns of "^C", which the terminal prints after the drawing and which must not wrap the line

/// True at most once in an interval.
class Pace {
 public:
  explicit Pace(Clock::duration interval) : interval_(interval) {}
  bool due() {
    const auto now = Clock::now();
    if (last_ && now - *last_ < interval_) return false;
    last_ = now;
    return true;
  }

 private:
  Clock::duration interval_;
  std::optional<Clock::time_point> last_;
};

std::string why_it_ended(const std::string& reason) {
  if (reason.empty() || reason == "finished") return {};
  if (reason == "patience") return "ended early: the held-out accuracy no longer rises (--patience)";
  if (reason == "max-time") return "ended by --max-time";
  if (reason == "request") return "ended early, as requested (lockstep stop --finish)";
  if (reason == "stopped") return "stopped early, with a checkpoint";
  if (reason == "observer") return "ended by the program's observer";
  return "ended: " + printable(reason);
}

class Progress final : public View {
 public:
  Progress(std::FILE* out, const ProgressOptions& options) : terminal_(out), options_(options) {}

  // The curves of a resumed run begin where the run began.
  void add_earlier(const record::Event& event) override {
    if (options_.plot) history_.add(event);
  }

  void show(const record::Event& event) override {
    if (event.kind == "step") close_epoch_before(event);
    history_.add(event);
    if (event.kind == "plan") show_plan(event);
    if (event.kind == "step") show_step(event);
    if (event.kind == "first_step")
      print("first step after " + fixed(record::number(event, "seconds"), 2) + " s", Tint::dim);
    if (event.kind == "validation") show_validation(event);
    if (event.kind == "checkpoint" && options_.verbose) show_checkpoint(event);
    if (event.kind == "average" && options_.averages) {
      print("averaged score " + fixed(record::number(event, "score"), 4) + " after step " +
                with_commas(event.step) + ", averaging time " +
                fixed(1000 * record::number(event, "seconds"), 1) + " ms",
            Tint::dim);
    }
    if (event.kind == "features") show_features(event);
    if (event.kind == "message") show_message(event);
    if (event.kind == "request")
      print(printable(record::text(event, "from") + " requests " + record::text(event, "request") + ": " +
                      record::text(event, "answer")),
            Tint::plain);
    if (event.kind == "stopping" && terminal_.is_terminal())
      print(printable(record::text(event, "text")), Tint::plain);
    if (event.kind == "end") show_end(event);
  }

  void finish() override {
    if (ended_) return;
    // Without the event "end" an error will follow: what was drawn stays on the screen.
    if (terminal_.interactive() && drawing_)
      terminal_.draw_block(
          {status_bar(history_.status(), terminal_.size().columns - kEcho, terminal_.colour())});
    terminal_.keep_block();
    ended_ = true;
  }

 private:
  // What was chosen automatically is told before the run spends an hour on it.
  void show_plan(const record::Event& event) {
    const auto figure = [&](const char* name) { return std::llround(record::number(event, name, 0)); };
    const bool sequences = figure("time_steps") > 0;
    const std::string noun = sequences ? "sequence" : "image";
    const std::string data =
        (event.values.value("streamed", false) ? "streamed " + noun + "s"
                                               : counted(figure("train_count"), noun)) +
        (sequences ? "" : " of " + std::to_string(figure("height")) + "x" + std::to_string(figure("width")));
    const std::string workers = counted(figure("workers"), "worker");
    std::string text;
    for (const std::string& part : {printable(record::text(event, "network")), ", " + data, ", " + workers,
                                    std::string("; lockstep plan says why")}) {
      if (terminal_.has_width() && static_cast<int>(text.size() + part.size()) >= terminal_.size().columns)
        break;
      text += part;
    }
    if (!text.empty()) print(text, Tint::dim);
  }

  // Before the first step, on a terminal, in the place of the bar.
  void show_features(const record::Event& event) {
    const auto figure = [&](const char* name) {
      return with_commas(std::llround(record::number(event, name, 0)));
    };
    const std::string text = "frozen layers computed for " + figure("done") + " of " + figure("all") +
                             " images, " + as_duration(record::number(event, "seconds_left", 0)) + " left";
    if (!terminal_.interactive()) {
      if (feature_pace_.due()) print(text, Tint::plain);
    } else if (static_cast<int>(text.size()) < terminal_.size().columns - kEcho) {
      terminal_.draw_block({Line(terminal_.colour()).add(text, Tint::dim)});
    }
  }

  void show_step(const record::Event& event) {
    if (event.step <= last_step_) {  // the run has begun again
      since_row_.clear();
      last_step_ = 0;
    }
    since_row_.add(event, last_step_ > 0 ? event.step - last_step_ : 1);
    last_step_ = event.step;
    timing_.add(event);
    unvalidated_epoch_ = event.epoch;
    drawing_ = true;
    if (options_.verbose) {
      terminal_.print(line_of(status_of(event)));
    } else if (!terminal_.interactive()) {
      if (line_pace_.due()) terminal_.print(line_of(history_.status()));
      return;
    }
    redraw();
  }

  Line line_of(const Status& status) const {
    return terminal_.has_width() ? status_words_within(status, terminal_.size().columns)
                                 : status_words(status);
  }

  // The figures of the single step, not smoothed.
  Status status_of(const record::Event& step) const {
    Status status = history_.status();
    status.loss = record::number(step, "loss");
    status.accuracy = record::number(step, "accuracy");
    return status;
  }

  void redraw() {
    if (!terminal_.interactive() || !redraw_pace_.due()) return;
    const TerminalSize size = terminal_.size();
    std::vector<Line> block{status_bar(history_.status(), size.columns - kEcho, terminal_.colour())};
    if (options_.plot) {
      if (plot_pace_.due() || size.columns != plot_columns_) {
        plot_ =
            draw_curves(history_, size.columns - 1, std::min(kPlotHeight, size.rows - 3), terminal_.colour());
        plot_columns_ = size.columns;
      }
      block.insert(block.end(), plot_.begin(), plot_.end());
    }
    terminal_.draw_block(block);
  }

  void show_validation(const record::Event& event) {
    ValidationRow row{.epoch = event.epoch, .step = event.step};
    row.held_out_loss = record::number(event, "loss");
    row.held_out_accuracy = record::number(event, "accuracy");
    row.validated = true;
    row.best = record::flag(event, "best");
    unvalidated_epoch_ = 0;
    print_row(row);
  }

  // An epoch that ends without a validation also has a row.
  void close_epoch_before(const record::Event& event) {
    if (unvalidated_epoch_ == 0 || event.epoch <= unvalidated_epoch_) return;
    print_row({.epoch = unvalidated_epoch_, .step = history_.status().step});
  }

  void print_row(ValidationRow row) {
    if (!since_row_.empty()) {
      row.train_loss = since_row_.loss();
      row.train_accuracy = since_row_.accuracy();
      row.images_per_second = since_row_.speed();
    }
    since_row_.clear();
    row.samples = history_.status().samples;
    if (!terminal_.has_width()) {
      terminal_.print(row_in_words(row, history_.status().max_epochs));
      return;
    }
    const int columns = terminal_.size().columns;
    if (columns != table_columns_) terminal_.print(table_head(row.samples, columns, terminal_.colour()));
    table_columns_ = columns;
    terminal_.print(table_row(row, columns, terminal_.colour()));
  }

  void show_checkpoint(const record::Event& event) {
    const std::string path = record::text(event, "path");
    if (!path.empty())
      print("checkpoint " + printable(path) + " in " + fixed(record::number(event, "seconds", 0), 2) + " s",
            Tint::dim);
    const double skipped = record::number(event, "skipped", 0);
    if (skipped > 0)
      print("checkpoints skipped while one was being written: " + with_commas(std::llround(skipped)),
            Tint::dim);
  }

  void show_message(const record::Event& event) {
    if (!drawing_) terminal_.erase_block();
    const bool warning = record::text(event, "level") == "warning";
    Line line(terminal_.colour());
    if (warning) line.add("warning: ", Tint::warning);
    terminal_.print(line.add(printable(record::text(event, "text"))));
  }

  void show_end(const record::Event& event) {
    if (unvalidated_epoch_ != 0 && !since_row_.empty())
      print_row({.epoch = unvalidated_epoch_, .step = history_.status().step});
    terminal_.erase_block();
    ended_ = true;
    const TerminalSize size = terminal_.size();
    print_block(draw_curves(history_, size.columns - 1,
                            size.columns > 2 * 34 ? kPlotHeight : 2 * kPlotHeight - 4, terminal_.colour()));
    if (options_.timing) print_block(timing_.table(event, size.columns, terminal_.colour()));
    if (const std::string why = why_it_ended(record::text(event, "reason")); !why.empty())
      print(why, Tint::dim);
    if (const std::string path = record::text(event, "weights_path"); !path.empty())
      print("model saved in " + printable(path), Tint::dim);
    terminal_.print(last_line(event));
  }

  // After a resume it may be of an earlier attempt, of which only the best is known. 0: unknown.
  int64_t step_of_accuracy(const record::Event& event, double accuracy) const {
    if (!history_.validations().empty()) return history_.validations().back().step;
    const bool is_best = accuracy == record::number(event, "best_accuracy");
    return is_best ? static_cast<int64_t>(record::number(event, "best_step", 0)) : 0;
  }

  Line last_line(const record::Event& event) const {
    Line line(terminal_.colour());
    const double accuracy = record::number(event, "accuracy"), test = record::number(event, "test_accuracy");
    const int64_t steps = history_.status().step, each = history_.status().steps_per_epoch;
    if (std::isfinite(accuracy)) {
      const int64_t validated = step_of_accuracy(event, accuracy);
      line.add(history_.validations().empty() && validated == 0 ? "accuracy " : "held-out accuracy ")
          .add(as_accuracy(accuracy), Tint::good);
      if (validated != 0 && validated != steps) line.add(" (step " + with_commas(validated) + ")");
    }
    if (std::isfinite(test))
      line.add(std::isfinite(accuracy) ? ", test accuracy " : "test accuracy ")
          .add(as_accuracy(test), Tint::good);
    if (std::isfinite(accuracy) || std::isfinite(test)) line.add(" after ");
    const bool whole_epochs = each == 0 || steps % each == 0;
    const int64_t count = whole_epochs ? history_.status().epoch : steps;
    line.add(counted(count, whole_epochs ? "epoch" : "step") + " in " +
             fixed(record::number(event, "seconds", 0), 1) + " s");
    const double speed = record::number(event, "images_per_second");
    if (speed > 0) line.add(", " + as_speed(speed) + " " + history_.status().samples + "/s");
    return line;
  }

  void print_block(const std::vector<Line>& lines) {
    if (lines.empty()) return;
    terminal_.print(Line());
    for (const Line& line : lines) terminal_.print(line);
    terminal_.print(Line());
  }

  void print(const std::string& text, Tint tint) {
    terminal_.print(Line(terminal_.colour()).add(text, tint));
  }

  Terminal terminal_;
  ProgressOptions options_;
  History history_;
  Timing timing_;
  StepMean since_row_;
  int64_t last_step_ = 0;
  Pace redraw_pace_{kRedrawInterval};
  Pace plot_pace_{kPlotInterval};
  Pace line_pace_{kLineInterval};
  Pace feature_pace_{kFeatureInterval};
  std::vector<Line> plot_;
  int plot_columns_ = 0;
  int table_columns_ = 0;
  int64_t unvalidated_epoch_ = 0;  // the epoch of the last step, if no validation has followed it
  bool drawing_ = false;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<View> progress(std::FILE* out, ProgressOptions options) {
  return std::make_unique<Progress>(out, options);
}

}  // namespace lockstep::view
