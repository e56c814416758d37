// What all starters of processes need: the child's environment, and words for how it ended.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// These variables ("NAME=value") and those of this process's environment that have other names.
std::vector<std::string> environment_with(const std::vector<std::string>& variables);

/// Pointers as execve wants them, valid while the texts live and do not change.
std::vector<char*> pointers_to(std::vector<std::string>& texts);

/// waitpid's status: "was killed by signal 9 (Killed)", "ended with status 1".
std::string text_of_status(int status);

}  // namespace lockstep
