// A worker process: how it is started, and what is known after its end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lockstep/launch/process.h"
#include "lockstep/pool/internal/channel.h"

namespace lockstep::pool {

/// The argument that makes a program a worker; the client's process id follows it.
inline constexpr const char* kWorkerArgument = "--lockstep-worker";
/// Where a worker finds its socket.
inline constexpr int kWorkerSocket = launch::kPassedDescriptor;

struct StartedProcess {
  pid_t id = 0;
  std::string name;  ///< "worker process 123"
  Descriptor socket;
  Descriptor errors;     ///< reads its standard error; none if this process may not read it
  bool is_child = true;  ///< false: a launcher started it, and nothing restarts it
};

/// Starts this program again as a worker; `environment` ("NAME=value") takes precedence over our own. The
/// kernel kills it when the calling *thread* ends, so call it from a thread that lives as long as the pool.
/// Throws io.
StartedProcess start_worker_process(const std::vector<std::string>& environment);

/// How it ended: "was killed by signal 9 (Killed)", "ended with status 3". Waits shortly for a process that
/// is ending, then kills it.
std::string end_of(pid_t process);

/// Reads a worker's standard error, passes it on to ours, and keeps its last lines.
class LastWords {
 public:
  /// Reads what is available, without waiting. False at the end of the stream.
  bool read(int descriptor);
  /// The last lines, or empty.
  std::string text() const;

 private:
  std::string tail_;
};

}  // namespace lockstep::pool
