// Commands from a client to rank 0 of a training in other processes: stop, end the run, and an observer's
// answers.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/pool/future.h"
#include "lockstep/pool/worker.h"
#include "lockstep/record/event.h"

namespace lockstep::train {

/// The client's end. Any thread may call any member.
class ClientLine {
 public:
  /// To the call that trains. What was said before is said now.
  void connect(const pool::AnyFuture& call);
  void stop() { say("stop"); }
  void enough() { say("enough"); }
  void answer(record::Control control) { say(control == record::Control::stop ? "no" : "yes"); }

 private:
  void say(const char* word);

  std::mutex mutex_;
  std::optional<pool::AnyFuture> call_;
  std::vector<std::string> waiting_;
};

/// Rank 0's end. Must not be moved.
class RankLine {
 public:
  explicit RankLine(const pool::Worker& worker);
  std::stop_token stop() const { return stop_.get_token(); }
  std::stop_token enough() const { return enough_.get_token(); }
  /// Waits for the observer's next answer; `go` after a stop.
  record::Control answer(const std::stop_token& stop);

 private:
  void take(const std::string& word);

  std::stop_source stop_, enough_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<record::Control> answer_;
  std::jthread listener_;  ///< the last member, so that the thread ends first
};

}  // namespace lockstep::train
