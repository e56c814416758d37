// Fuzzing without a compiler's help: seeds are changed at random and given to a reader, in a child process
// whose memory is bounded. A reader may refuse its input by an Error or a DecodeError; a crash, another
// exception, more memory than allowed and a hang are findings.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::fuzz {

struct Reader {
  const char* name;  ///< also of the folder with its seeds
  std::function<void(std::string_view input)>
      read;  ///< runs in an empty folder of its own, which is removed after it
  /// Puts checksums right that a changed input would be refused by; may be empty.
  std::function<void(std::string& input)> repair = {};
};

/// PROGRAM SEEDS-FOLDER [--seconds N] [--seed N] [READER...]: each reader (all without names) for N seconds,
/// by default 1, and 20 where LOCKSTEP_LONG is set. Says how many inputs each was given, how many it took and
/// the most memory that the child had; a finding is written to READER-finding beside the working folder's
/// other files, and the status is 1.
int run(int argc, char** argv, std::span<const Reader> readers);

}  // namespace lockstep::fuzz
