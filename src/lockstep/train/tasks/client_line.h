// Commands from a client to rank 0 of a training in other processes of this machine: stop, end the run, and
// an observer's answers.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "lockstep/base/descriptor.h"
#include "lockstep/record/event.h"

namespace lockstep::train {

/// The client's end. Any thread may call any member.
class ClientLine {
 public:
  /// Throws io.
  ClientLine();
  /// The path with which rank 0 opens its end.
  std::string path() const;
  void stop() const { say('s'); }
  void enough() const { say('e'); }
  void answer(record::Control control) const { say(control == record::Control::stop ? 'n' : 'y'); }

 private:
  void say(char word) const;
  Descriptor read_, write_;
};

/// Rank 0's end. Must not be moved.
class RankLine {
 public:
  /// Throws not_found, io.
  explicit RankLine(const std::string& path);
  std::stop_token stop() const { return stop_.get_token(); }
  std::stop_token enough() const { return enough_.get_token(); }
  /// Waits for the observer's next answer; `go` after a stop.
  record::Control answer(const std::stop_token& stop);

 private:
  void listen(const std::stop_token& end);

  OpenFile file_;
  std::stop_source stop_, enough_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<record::Control> answer_;
  std::jthread listener_;  ///< the last member, so that the thread ends first
};

}  // namespace lockstep::train
