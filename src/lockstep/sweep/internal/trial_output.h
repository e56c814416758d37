// What a trial prints, in a file of which only the beginning and the end take disk space.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "lockstep/sweep/internal/printed_result.h"

namespace lockstep::sweep {

/// The file into which the processes of a trial print by themselves. What lies between its first and its last
/// mebibyte is left out, 64 MiB at a time: its disk space is released, and it reads as zeros. The file keeps
/// its size, and who prints does not notice. A file system that cannot do it keeps all. One thread.
class TrialOutput {
 public:
  /// name: of the result
  TrialOutput(std::filesystem::path file, std::string name);

  /// Leaves out one part if there is one. To be called again and again; most calls do nothing.
  void look(std::chrono::steady_clock::time_point now);
  /// Leaves out all parts. Returns the reader of the result, which has read what is left out.
  ResultReader finish();

 private:
  int64_t parts() const;
  bool leave_out();

  std::filesystem::path file_;
  std::string name_;
  ResultReader reader_{};
  int64_t left_out_;  // until here
  bool may_release_ = true;
  std::chrono::steady_clock::time_point next_look_{};
};

}  // namespace lockstep::sweep
