#include "lockstep/record/process_identity.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sys/types.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text.h"
#include "lockstep/record/internal/process_line.h"

namespace lockstep::record {
namespace {

std::string link_text(const char* path) {
  std::error_code code;
  return std::filesystem::read_symlink(path, code).string();
}

}  // namespace

ProcessIdentity this_process() {
  const int64_t process = ::getpid();
  const auto line = process_line(process);
  // A /proc of another namespace shows other processes under these numbers (unshare --pid).
  const bool is_own = link_text("/proc/self") == std::to_string(process);
  return {.host = host_name(),
          .boot = first_line_of("/proc/sys/kernel/random/boot_id"),
          .process_space = is_own ? link_text("/proc/self/ns/pid") : "",
          .process = process,
          .process_start = is_own && line ? line->start : 0};
}

ProcessIdentity identity_of(int64_t process) {
  ProcessIdentity identity = this_process();
  const auto line = process_line(process);
  identity.process = process;
  identity.process_start = identity.process_start != 0 && line ? line->start : 0;
  return identity;
}

std::optional<bool> is_there(const ProcessIdentity& identity) {
  const ProcessIdentity here = this_process();
  const bool is_process = identity.process > 0 && identity.process <= std::numeric_limits<pid_t>::max();
  if (identity.boot.empty() || identity.process_space.empty() || !is_process) return std::nullopt;
  if (identity.boot != here.boot || identity.process_space != here.process_space) return std::nullopt;
  const auto line = process_line(identity.process);
  if (!line) {
    if (here.process_start == 0) return std::nullopt;  // no /proc
    return ::kill(static_cast<pid_t>(identity.process), 0) == 0 || errno == EPERM;
  }
  const bool is_dead = line->state == 'Z' || line->state == 'X';
  return !is_dead && (identity.process_start == 0 || line->start == identity.process_start);
}

std::optional<double> start_time(int64_t process) {
  const auto line = process_line(process);
  std::ifstream words("/proc/stat");
  for (std::string word; line && words >> word;) {
    double machine_start = 0;
    if (word == "btime" && words >> machine_start)
      return machine_start + static_cast<double>(line->start) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }
  return std::nullopt;
}

std::optional<int64_t> memory_kills_in(const std::string& file) {
  // The name may be from a run folder of others, where it could be that of a pipe.
  if (!file.starts_with("/sys/fs/cgroup/") || file.find("..") != std::string::npos) return std::nullopt;
  std::ifstream lines(file);
  std::string key;
  int64_t value = 0;
  while (lines >> key >> value) {
    if (key == "oom_kill") return value;
  }
  return std::nullopt;
}

std::optional<MemoryKills> memory_kills() {
  std::ifstream lines("/proc/self/cgroup");  // cgroups(7): ID:CONTROLLERS:PATH
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> parts = split(line, ':');
    if (parts.size() != 3) continue;
    const bool is_v2 = parts[0] == "0" && parts[1].empty();
    if (!is_v2 && parts[1] != "memory") continue;
    const std::string root = is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    // A container may see its own group as the root, and the group's path from outside.
    for (const std::string& folder : {root + (parts[2] == "/" ? "" : parts[2]), root}) {
      const std::string file = folder + (is_v2 ? "/memory.events" : "/memory.oom_control");
      if (const auto count = memory_kills_in(file)) return MemoryKills{file, *count};
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::record
