// Which process writes a run, such that any other process can tell whether it is still there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/describe.h"

namespace lockstep::record {

/// A process, told apart from later ones with its number.
struct ProcessIdentity {
  std::string host{};
  std::string boot{};           ///< the kernel's id of this start of the machine; empty: not known
  std::string process_space{};  ///< the namespace in which `process` counts; empty: not known
  int64_t process = 0;
  int64_t process_start = 0;  ///< ticks from the machine's start to the process's; 0: not known
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("host", self.host, "name of the machine");
    field("boot", self.boot, "the kernel's id of this start of the machine");
    field("process_space", self.process_space, "the namespace in which `process` counts");
    field("process", self.process, "process id");
    field("process_start", self.process_start, "ticks from the machine's start to the process's");
  };
};

ProcessIdentity this_process();

/// Of a process that the caller has started, and that counts in the caller's namespace.
ProcessIdentity identity_of(int64_t process);

/// Whether the process is there. Nothing if this process cannot know: it is on another machine, or counts in
/// another namespace.
std::optional<bool> is_there(const ProcessIdentity& identity);

/// When a process of this machine started, in seconds since 1970. Nothing if it is not there.
std::optional<double> start_time(int64_t process);

/// Processes of the calling process's memory cgroup that the kernel has killed because memory ran out
/// (memory.events of cgroup v2, memory.oom_control of v1). Nothing without such a cgroup.
struct MemoryKills {
  std::string file{};
  int64_t count = 0;
};
std::optional<MemoryKills> memory_kills();

/// The count in such a file now; nothing if it cannot be read.
std::optional<int64_t> memory_kills_in(const std::string& file);

}  // namespace lockstep::record
