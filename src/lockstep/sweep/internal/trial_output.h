// What a trial prints, in a file that does not grow without end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "lockstep/base/descriptor.h"
#include "lockstep/launch/process.h"

namespace lockstep::sweep {

/// The file of a trial's output: its beginning and its end, a mebibyte each or a little more. Between them a
/// line says how much is left out, and the last line with a result among that follows. One thread.
class BoundedOutput {
 public:
  /// Goes on with the file if it is there. name: of the result. Throws io.
  BoundedOutput(const std::filesystem::path& file, std::string name);
  /// Throws io.
  void take(std::string_view piece);

 private:
  void leave_out();

  OpenFile file_;
  std::string name_;
  std::string text_;  // of the file
};

/// A pipe into which the processes of a trial print, and the thread that reads it.
class TrialOutput {
 public:
  /// Throws io.
  TrialOutput(const std::filesystem::path& file, std::string name);
  TrialOutput(const TrialOutput&) = delete;
  TrialOutput& operator=(const TrialOutput&) = delete;

  /// For the process; closed by begin().
  int descriptor() const { return pipe_.writing.get(); }
  /// After the process was started.
  void begin();
  /// After its end, and that of all that it has started and that did not leave its group. Returns why the
  /// output could not be written; empty if it was.
  std::string finish();

 private:
  void read(const std::stop_token& stop);
  void take(std::string_view piece);

  BoundedOutput kept_;
  launch::Pipe pipe_;
  std::string error_;
  std::jthread thread_{};
};

}  // namespace lockstep::sweep
