// The event log and the views of one run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/status_file.h"
#include "lockstep/train/loop/reporter.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/training_request.h"
#include "lockstep/view/views.h"

namespace lockstep::train {

using Views = std::vector<std::unique_ptr<view::View>>;

/// All views of a run: the terminal, the request's listener, the curves, TensorBoard.
Views make_views(const TrainingRequest& request, const Options& options, const record::RunPaths& paths,
                 int64_t attempt);

/// Gives the views the events of the run's earlier attempts. Returns a warning for the user if a part of them
/// is damaged; else nothing.
std::string add_earlier(const Views& views, const std::filesystem::path& run_folder);

/// The request's listener as a view; none if it is empty.
Views listener_views(const TrainingRequest& request);

/// Rank 0's log; on other ranks it is closed and ignores events. Any thread may call say() and message().
class RunLog {
 public:
  RunLog() = default;
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;
  /// The status of an attempt that was announced and not opened is what it was before.
  ~RunLog();

  /// From here on the run's status says that it goes on, although it still prepares. False for the first
  /// attempt of a run without a status, which gets none.
  ///   here  its attempt and where it stands; total_steps is that of the earlier status, if any
  bool announce(const record::RunPaths& paths, record::Status here);
  /// here: its attempt and where it stands.
  void open(const record::RunPaths& paths, const record::Status& here, Views views);
  void say(record::Event event);
  template <record::EventKind K>
  void say(const K& values, int64_t step = 0, int64_t epoch = 0) {
    say(record::event_of(values, step, epoch));
  }
  /// level: "info" or "warning"
  void message(const std::string& text, const char* level);
  /// The run begins again, so its status is at step 0 and has no best validation.
  void begin_again();
  /// The run is about to stop: for the views and the status.
  void stopping(const std::string& text);

  /// Waits until all events are written and shown; throws what the log met. Then the status says how the run
  /// ended.
  void finish(record::RunState state, const std::string& reason);
  /// The same with the event `failed`. The error is the one to report: what the log meets then follows from
  /// it.
  void fail(const Error& error, int64_t rank) noexcept;

 private:
  std::mutex mutex_;
  std::unique_ptr<Reporter> reporter_;
  std::optional<record::Status> earlier_;  // what the status said before it was announced, if there was one
  std::unique_ptr<record::StatusWriter> status_;
};

/// Ends the log of a run that has thrown `error`: as stopped if the task that made it was cancelled, else as
/// failed. The caller handles the exception.
///   failed_in  where it was thrown, if its context does not say so: "step 13, shard 4"
void end_by_error(RunLog& log, const Error& error, int64_t rank, const std::string& failed_in) noexcept;

}  // namespace lockstep::train
