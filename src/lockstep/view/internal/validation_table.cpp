#include "lockstep/view/internal/validation_table.h"

#include <array>
#include <cmath>

#include "lockstep/base/text.h"

namespace lockstep::view {
namespace {

struct Column {
  const char* head;
  int width;
  int least_columns;  // minimum width of the terminal to be shown
};
constexpr std::array<Column, 7> kColumns{{
    {"epoch", 5, 0},
    {"step", 8, 66},
    {"train loss", 12, 34},
    {"accuracy", 10, 58},
    {"held-out loss", 15, 48},
    {"accuracy", 10, 0},
    {"/s", 13, 76},
}};

std::string or_dash(bool known, const std::string& text) { return known ? text : "–"; }

}  // namespace

void StepMean::add(const record::Event& step, int64_t steps) {
  const double samples = record::number(step, "samples", 1) * static_cast<double>(steps);
  loss_ += record::number(step, "loss") * samples;
  accuracy_ += record::number(step, "accuracy") * samples;
  samples_ += samples;
  seconds_ += samples / record::number(step, "images_per_second");
}

Line table_head(const std::string& samples, int columns, bool colour) {
  Line line(colour);
  for (const Column& column : kColumns) {
    const bool speed = &column == &kColumns.back();
    if (columns > column.least_columns)
      line.add(padded_left((speed ? samples : "") + column.head, column.width), Tint::dim);
  }
  return line;
}

Line table_row(const ValidationRow& row, int columns, bool colour) {
  const bool trained = !std::isnan(row.train_loss) || !std::isnan(row.train_accuracy);
  const std::array<std::string, 7> cells{
      with_commas(row.epoch),
      with_commas(row.step),
      or_dash(trained, as_loss(row.train_loss)),
      or_dash(trained, as_accuracy(row.train_accuracy)),
      or_dash(row.validated, as_loss(row.held_out_loss)),
      or_dash(row.validated, as_accuracy(row.held_out_accuracy)),
      or_dash(std::isfinite(row.images_per_second), as_speed(row.images_per_second)),
  };
  Line line(colour);
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool main_figure = i == 5;
    if (columns > kColumns[i].least_columns)
      line.add(padded_left(cells[i], kColumns[i].width), main_figure && row.best ? Tint::good : Tint::plain);
  }
  if (row.best && line.width() + 6 < columns) line.add("  best", Tint::good);
  return line;
}

Line row_in_words(const ValidationRow& row, int64_t max_epochs) {
  Line line;
  line.add("epoch " + with_commas(row.epoch) + (max_epochs > 0 ? "/" + with_commas(max_epochs) : "") +
           "  step " + with_commas(row.step));
  if (!std::isnan(row.train_loss)) line.add("  train loss " + as_loss(row.train_loss));
  if (!std::isnan(row.train_accuracy)) line.add("  accuracy " + as_accuracy(row.train_accuracy));
  if (row.validated)
    line.add("  held-out loss " + as_loss(row.held_out_loss) + "  accuracy " +
             as_accuracy(row.held_out_accuracy));
  if (row.best) line.add("  best");
  if (std::isfinite(row.images_per_second))
    line.add("  " + as_speed(row.images_per_second) + " " + row.samples + "/s");
  return line;
}

}  // namespace lockstep::view
