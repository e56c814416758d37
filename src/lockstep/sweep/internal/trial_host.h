// A process that trains trials on threads: they share its LibTorch, its decoded images and its memory budget.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/launch/process.h"
#include "lockstep/sweep/trial_messages.h"

namespace lockstep::sweep {

struct HostedEnd {
  int64_t id = 0;
  launch::End end{};
  std::string code{};  ///< of its error; empty if its process has died
};

/// One thread. The process is started with the first trial, and ends with the thread that starts it.
class TrialHost {
 public:
  /// memory: bytes that its trials may use together; 0: most of what is free.
  TrialHost(std::string lockstep, int64_t memory) : lockstep_(std::move(lockstep)), memory_(memory) {}
  TrialHost(const TrialHost&) = delete;
  TrialHost& operator=(const TrialHost&) = delete;
  ~TrialHost();

  /// Throws io.
  void start(const TrialOrder& order);
  /// Asks a trial to stop with a checkpoint.
  void stop(int64_t id);
  /// Trials that have ended since the last call. If the process has died, all trials that it trained have
  /// ended as it did; the next start makes another one.
  std::vector<HostedEnd> ends();
  void kill();

  int64_t peak_memory() const { return peak_memory_; }
  /// For the user, from the last call of ends(); taken once, mostly empty.
  std::string take_note() { return std::exchange(note_, {}); }

 private:
  void open();
  void send(const TrialOrder& order);
  void close();

  std::string lockstep_;
  int64_t memory_;
  pid_t process_ = -1;
  Descriptor socket_;
  std::string unread_;
  std::vector<int64_t> trained_;
  int64_t peak_memory_ = 0;
  std::string note_;
};

}  // namespace lockstep::sweep
