// Fuzzing without a compiler's help: seeds are changed at random and given to a reader, in a child process
// with bounded memory. A reader may refuse its input with an Error or a DecodeError. A crash, another
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
  /// Corrects checksums for which a changed input would be refused; may be empty.
  std::function<void(std::string& input)> repair = {};
};

/// PROGRAM SEEDS-FOLDER [--seconds N] [--seed N] [READER...]: runs each reader (all if none is named) for N
/// seconds, by default 1, or 20 if LOCKSTEP_LONG is set. Prints for each the number of inputs, the number of
/// accepted inputs and the peak memory of the child. A finding is written to READER-finding in the working
/// folder, and the status is 1.
int run(int argc, char** argv, std::span<const Reader> readers);

}  // namespace lockstep::fuzz
