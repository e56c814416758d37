// Runs a command of the system to its end and keeps what it wrote.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cluster {

struct CommandRun {
  std::string input{};                           ///< what it reads on standard input
  std::vector<std::string> environment{};        ///< "NAME=value" that replace the starter's
  std::chrono::seconds limit{60};                ///< after it the command is killed
  std::function<void(std::string_view)> show{};  ///< gets what it writes on standard output, as it comes
  std::stop_token stop{};                        ///< at a stop the command is killed
};

struct CommandEnd {
  int status = 0;            ///< as a shell counts it; 127: there is no such program
  bool out_of_time = false;  ///< it was killed at the limit
  std::string output;        ///< at most 64 MB
  std::string errors;        ///< the same
};

/// Throws io if no process can be made, cancelled at a stop.
CommandEnd run_command(const std::vector<std::string>& words, const CommandRun& how = {});

/// Whether PATH has the program; without a PATH, whether the system's folders have it.
///   folder  where the program is to begin, for folders of PATH that are relative or empty
bool has_program(const std::string& name, const std::filesystem::path& folder = {});

}  // namespace lockstep::cluster
