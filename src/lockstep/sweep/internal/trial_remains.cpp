#include "lockstep/sweep/internal/trial_remains.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <unistd.h>

#include "lockstep/base/text.h"

namespace lockstep::sweep {
namespace {

constexpr std::chrono::milliseconds kInterval{10};
constexpr int kTries = 100;

// proc_pid_environ(5): as the process was started, readable by its user.
bool has_variable(const std::filesystem::path& process, const std::string& variable) {
  std::ifstream file(process / "environ", std::ios::binary);
  for (std::string one; std::getline(file, one, '\0');) {
    if (one == variable) return true;
  }
  return false;
}

bool kill_all_with(const std::string& variable) {
  bool found = false;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
    const auto process = parse_number<pid_t>(entry.path().filename().string());
    if (!process || *process == ::getpid() || !has_variable(entry.path(), variable)) continue;
    found = ::kill(*process, SIGKILL) == 0 || found;
  }
  return found;
}

}  // namespace

std::string variable_of_trial(const std::string& folder) { return "LOCKSTEP_TRIAL_FOLDER=" + folder; }

void kill_remains(const std::string& variable) {
  for (int i = 0; i < kTries && kill_all_with(variable); ++i) std::this_thread::sleep_for(kInterval);
}

}  // namespace lockstep::sweep
