// What a sweep and its process for trials on threads say to each other: a line of JSON for each message, over
// a socket that the process finds at launch::kPassedDescriptor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/describe.h"

namespace lockstep::sweep {

/// To the process: train, or stop with a checkpoint.
struct TrialOrder {
  int64_t id = 0;                    ///< of no other trial that this process trains
  std::vector<std::string> words{};  ///< of `lockstep train`, without the program; empty: stop
  std::string output{};              ///< file to which errors are appended
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("id", self.id, "");
    field("words", self.words, "");
    field("output", self.output, "");
  };
};

/// From the process: a trial has ended, or a note for the user.
struct TrialAnswer {
  int64_t id = 0;
  int64_t status = 0;       ///< as the exit status of the command
  std::string code{};       ///< of the error with which it ended, as name_of(ErrorCode)
  int64_t peak_memory = 0;  ///< bytes, of the process until now
  std::string note{};       ///< not empty: no trial has ended
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("id", self.id, "");
    field("status", self.status, "");
    field("code", self.code, "");
    field("peak_memory", self.peak_memory, "");
    field("note", self.note, "");
  };
};

}  // namespace lockstep::sweep
