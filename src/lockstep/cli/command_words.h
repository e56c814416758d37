// The words of a job's command: which program it is, and what a job needs to know of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::cli {

struct CommandWords {
  std::vector<std::string> words;  ///< program and words; a command of ours begins with the program lockstep
  std::string name;                ///< short
  bool is_ours = false;
  bool trains = false;  ///< it is lockstep train, also below lockstep run
  std::string output;   ///< of --output; empty: not given
  int64_t workers = 0;  ///< of --workers or --ranks; 0: not given
};

/// words: as after "lockstep batch --". program: lockstep, as the machine that runs the job finds it.
CommandWords read_command_words(const std::vector<std::string>& words, const std::string& program);

/// A line as a shell divides it into words, with quotes and "#". Throws invalid_option for what a shell would
/// do more with, such as "|" and "$".
std::vector<std::string> shell_words(const std::string& line);

}  // namespace lockstep::cli
