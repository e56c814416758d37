// Run folders for tests, as programs of several kinds leave them.
#pragma once

#include <string>

#include "lockstep/base/test_folder.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/process_identity.h"
#include "lockstep/record/result.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/status_file.h"

namespace lockstep::record::test {

inline void write_event(EventLog& log, Event event, double time) {
  event.time = time;
  log.write(event);
}

/// The log of one attempt with two validations; with `end` an event for its end.
inline void write_log(const std::filesystem::path& run, int64_t attempt,
                      const std::string& end = "finished") {
  EventLog log(run, 0, attempt);
  PlanOfRun plan;
  plan.network = "lenet";
  plan.folder = "photos";
  plan.total_steps = 20;
  write_event(log, event_of(plan), 1000);
  Step step;
  step.loss = 0.5;
  for (int64_t i = 1; i <= 20; ++i) write_event(log, event_of(step, i, 1), 1000 + static_cast<double>(i));
  Validation validation;
  validation.accuracy = 0.75;
  validation.loss = 0.25;
  validation.best = true;
  write_event(log, event_of(validation, 10, 1), 1010);
  validation.accuracy = 0.5;
  validation.best = false;
  write_event(log, event_of(validation, 20, 1), 1020);
  if (end.empty()) return;
  End last;
  last.reason = end;
  last.seconds = 21;
  write_event(log, event_of(last, 20, 1), 1021);
}

inline Status status_with(RunState state, const std::string& reason = {}) {
  Status status;
  status.state = state;
  status.reason = reason;
  status.step = 20;
  status.epoch = 1;
  status.total_steps = 20;
  status.writer = this_process();
  return status;
}

/// A run that has ended, with all its records.
inline void write_ended_run(const std::filesystem::path& run, double accuracy = 0.5) {
  write_log(run, 0);
  write_status(run, status_with(RunState::ended, "finished"));
  Result result;
  result.reason = "finished";
  result.steps = 20;
  result.epochs = 1;
  result.seconds = 22;
  result.accuracy = accuracy;
  write_result(run, result);
}

}  // namespace lockstep::record::test
