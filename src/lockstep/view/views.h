// Readers of events that show a run: progress on the terminal, curves as text and SVG, TensorBoard files, the
// timing table.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/record/event.h"

namespace lockstep::view {

/// One reader. Not thread-safe: rank 0 calls it between steps. finish() is called once at the end, also after
/// an error.
class View {
 public:
  virtual ~View() = default;
  /// An event of an earlier attempt of the run; all of them come before the first show().
  virtual void add_earlier(const record::Event& /*event*/) {}
  virtual void show(const record::Event& event) = 0;
  virtual void finish() {}
};

struct ProgressOptions {
  bool plot = false;      ///< redraw the curves in the terminal during the run
  bool timing = false;    ///< print the step's breakdown at the end
  bool verbose = false;   ///< a line for every step event
  bool averages = false;  ///< a line for every average event
};

/// Progress on `out`: a redrawn bar if it is a terminal, otherwise lines (at most one in two seconds, and one
/// for each validation).
std::unique_ptr<View> progress(std::FILE* out, ProgressOptions options);

/// RUN/curves.svg: loss, accuracy and learning rate against steps; rewritten (atomically) at most every two
/// seconds and at the end.
std::unique_ptr<View> svg_curves(const std::filesystem::path& run_folder);

/// RUN/tensorboard/events.out.tfevents.*: scalars train/loss, train/accuracy, train/learning_rate,
/// train/images_per_second, validation/loss, validation/accuracy against the step.
std::unique_ptr<View> tensorboard(const std::filesystem::path& run_folder, int64_t attempt);

/// Training and validation curves of these events as text, `width` x `height` characters, for a terminal that
/// shows UTF-8.
std::string text_curves(const std::vector<record::Event>& events, int width, int height);

}  // namespace lockstep::view
