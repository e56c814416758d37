// Progress of trainings that run in tasks of a pool, shown at the client: a line and a curve for each.
//
//   train::TrialProgress progress;                                                       // at the client
//   pool.parfor(train_task, trials, {.queue = progress.queue()});
//   ...
//   request.listener = train::tell_client(worker, "rate 0.01");                              // in the task
#pragma once

#include <cstdio>
#include <string>

#include "lockstep/base/describe.h"
#include "lockstep/io/event.h"
#include "lockstep/pool/data_queue.h"
#include "lockstep/pool/worker.h"
#include "lockstep/train/run/fit.h"

namespace lockstep::train {

/// An event on its way to the client.
struct TrialEvent {
  std::string trial{};
  std::string event{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("trial", self.trial, "its name, another one for each trial");
    field("event", self.event, "as a line of the event log");
  };
};

/// Shows trials on `out`: on a terminal a line and a curve of each, redrawn; else a line for each validation
/// and each end. A handle; what is shown ends with the last copy and the last call that uses its queue. The
/// curves in full are in each trial's run folder (curves.svg).
class TrialProgress {
 public:
  explicit TrialProgress(std::FILE* out = stdout);
  const pool::DataQueue<TrialEvent>& queue() const { return queue_; }

 private:
  pool::DataQueue<TrialEvent> queue_;
};

/// For TrainingRequest::listener in a task whose call has the queue of a TrialProgress. Falls silent once the
/// call is stopped. The worker is the task's own, so it is used while the task runs only.
Listener tell_client(pool::Worker& worker, std::string trial);

}  // namespace lockstep::train
