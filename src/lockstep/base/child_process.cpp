#include "lockstep/base/child_process.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {

// The first counts for getenv where two have one name; ours are left out all the same, for a program may look
// at them all.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char* const* entry = environ; *entry != nullptr; ++entry) {
    const std::string_view own = *entry;
    const std::string_view name = own.substr(0, own.find('=') + 1);
    const bool changed = std::any_of(variables.begin(), variables.end(),
                                     [&](const std::string& variable) { return variable.starts_with(name); });
    if (!changed) all.emplace_back(own);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string text_of_status(int status) {
  if (WIFSIGNALED(status))
    return "was killed by signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) +
           ")";
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace lockstep
