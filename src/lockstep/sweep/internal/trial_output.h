// What a trial prints, in a file of which only the beginning and the end take disk space.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "lockstep/sweep/internal/printed_result.h"

namespace lockstep::sweep {

/// The file into which the processes of a trial print by themselves. What lies between its first and its last
/// mebibyte is left out: its disk space is released, and it reads as zeros. The file keeps its size, and who
/// prints does not notice. A file system that cannot do it keeps all. A value, on one thread.
class TrialOutput {
 public:
  /// name: of the result; empty: none is looked for, so nothing is read
  TrialOutput(std::filesystem::path file, std::string name);

  /// Leaves out 64 MiB if there are as many; returns whether it has. To be called again and again; most calls
  /// do nothing.
  bool look(std::chrono::steady_clock::time_point now);
  /// Leaves out all, so that less than 3 MiB stay. Returns the reader of the result, which has read what is
  /// left out.
  ResultReader finish();
  /// The same where the result does not matter.
  void release();

 private:
  int64_t middle();
  bool leave_out(int64_t bytes);

  std::filesystem::path file_;
  std::string name_;
  ResultReader reader_{};
  int64_t left_out_;  // until here
  bool may_release_ = true;
  std::chrono::steady_clock::time_point next_look_{};
};

}  // namespace lockstep::sweep
