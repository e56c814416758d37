// Carries rank 0's events to the log and the views, off the training thread.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "lockstep/base/bounded_queue.h"
#include "lockstep/io/event.h"
#include "lockstep/io/event_log.h"
#include "lockstep/view/views.h"

namespace lockstep::train {

/// say() is called by one thread at a time and waits only when the writer is far behind.
class Reporter {
 public:
  Reporter(std::unique_ptr<io::EventLog> log, std::vector<std::unique_ptr<view::View>> views,
           int64_t attempt);
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  void say(io::Event event);

  /// Waits until everything said is written and shown; throws what the log met, once.
  void finish();

 private:
  void work();

  std::unique_ptr<io::EventLog> log_;
  std::vector<std::unique_ptr<view::View>> views_;
  int64_t attempt_;
  BoundedQueue<io::Event> queue_{1024};
  std::exception_ptr error_;
  std::jthread thread_;
};

/// Seconds since 1970, with fractions.
double now_seconds();

}  // namespace lockstep::train
