// Carries rank 0's events to the log and the views, off the training thread.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "lockstep/base/bounded_queue.h"
#include "lockstep/base/seconds.h"
#include "lockstep/record/event.h"
#include "lockstep/record/event_log.h"
#include "lockstep/view/views.h"

namespace lockstep::train {

/// One thread at a time calls say(). It waits only if the writer is far behind.
class Reporter {
 public:
  Reporter(std::unique_ptr<record::EventLog> log, std::vector<std::unique_ptr<view::View>> views,
           int64_t attempt);
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  void say(record::Event event);

  /// Waits until all events are written and shown. Throws the first error of the log, once.
  void finish();

 private:
  void work();

  std::unique_ptr<record::EventLog> log_;
  std::vector<std::unique_ptr<view::View>> views_;
  int64_t attempt_;
  BoundedQueue<record::Event> queue_{1024};
  std::exception_ptr error_;
  std::jthread thread_;
};

}  // namespace lockstep::train
