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
#include "lockstep/record/event.h"
#include "lockstep/pool/data_queue.h"
#include "lockstep/pool/worker.h"
#include "lockstep/train/run/fit.h"

namespace lockstep::train {

/// An event that is sent to the client.
struct TrialEvent {
  std::string trial{};
  std::string event{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("trial", self.trial, "its name, which no other trial has");
    field("event", self.event, "as a line of the event log");
  };
};

/// Shows trials on `out`: on a terminal a line and a curve for each, which are redrawn; otherwise a line for
/// each validation and each end. A handle; trials are shown until the last copy is destroyed and the last
/// call that uses its queue has ended. Complete curves are in each trial's run folder (curves.svg).
class TrialProgress {
 public:
  explicit TrialProgress(std::FILE* out = stdout);
  const pool::DataQueue<TrialEvent>& queue() const { return queue_; }

 private:
  pool::DataQueue<TrialEvent> queue_;
};

/// For TrainingRequest::listener in a task whose call has the queue of a TrialProgress. Sends nothing once
/// the call is stopped. Keeps a reference to the worker, so it must not be used after the task has ended.
Listener tell_client(pool::Worker& worker, std::string trial);

}  // namespace lockstep::train
