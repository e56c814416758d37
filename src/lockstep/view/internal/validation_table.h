// One row for each epoch or validation, with the results on training and held-out data.
#pragma once

#include <limits>
#include <string>

#include "lockstep/record/event.h"
#include "lockstep/view/internal/history.h"
#include "lockstep/view/internal/line.h"

namespace lockstep::view {

/// The mean of training steps since the last row, weighted by samples.
class StepMean {
 public:
  /// steps: since the last one that was added; its speed is that of all of them.
  void add(const record::Event& step, int64_t steps);
  void clear() { *this = {}; }
  bool empty() const { return samples_ == 0; }
  double loss() const { return loss_ / samples_; }
  double accuracy() const { return accuracy_ / samples_; }
  double speed() const {
    return samples_ / seconds_;
  }  ///< samples a second; NaN or infinite if no step reported its speed

 private:
  double loss_ = 0;
  double accuracy_ = 0;
  double samples_ = 0;
  double seconds_ = 0;
};

struct ValidationRow {
  int64_t epoch = 0;
  int64_t step = 0;
  double train_loss = std::numeric_limits<double>::quiet_NaN();
  double train_accuracy = std::numeric_limits<double>::quiet_NaN();
  double held_out_loss = std::numeric_limits<double>::quiet_NaN();
  double held_out_accuracy = std::numeric_limits<double>::quiet_NaN();
  double images_per_second = std::numeric_limits<double>::quiet_NaN();
  std::string samples = "images";
  bool validated = false;
  bool best = false;
};

/// The table's head and its rows, narrower than `columns`. samples: the word for samples.
Line table_head(const std::string& samples, int columns, bool colour);
Line table_row(const ValidationRow& row, int columns, bool colour);

/// The row as a sentence, for logs.
Line row_in_words(const ValidationRow& row, int64_t max_epochs);

}  // namespace lockstep::view
