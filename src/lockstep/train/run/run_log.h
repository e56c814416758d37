// The event log and the views of one run.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/record/event.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/train/loop/reporter.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/training_request.h"
#include "lockstep/view/views.h"

namespace lockstep::train {

using Views = std::vector<std::unique_ptr<view::View>>;

/// All views of a run: the terminal, the request's listener, the curves, TensorBoard.
Views make_views(const TrainingRequest& request, const Options& options, const record::RunPaths& paths,
                 int64_t attempt);

/// The request's listener as a view; none if it is empty.
Views listener_views(const TrainingRequest& request);

/// Rank 0's log; on other ranks it is closed and ignores events. Any thread may call say() and message().
class RunLog {
 public:
  RunLog() = default;
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  void open(const record::RunPaths& paths, int64_t attempt, Views views);
  void say(record::Event event);
  /// level: "info" or "warning"
  void message(const std::string& text, const char* level);

  /// Waits until all events are written and shown; throws what the log met.
  void finish();
  /// The same after a failure of the run, which is the one to report: what the log met then follows from it.
  void finish_after_failure() noexcept;

 private:
  std::mutex mutex_;
  std::unique_ptr<Reporter> reporter_;
};

}  // namespace lockstep::train
