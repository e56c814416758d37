// A worker process: how it is started, and what is left of it when it has ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lockstep/launch/process.h"
#include "lockstep/pool/internal/channel.h"

namespace lockstep::pool {

/// The argument that makes a program a worker; the client's process id stands behind it.
inline constexpr const char* kWorkerArgument = "--lockstep-worker";
/// Where a worker finds its socket.
inline constexpr int kWorkerSocket = launch::kPassedDescriptor;

struct StartedProcess {
  pid_t id = 0;
  std::string name;  ///< "worker process 123"
  Descriptor socket;
  Descriptor errors;     ///< reads what it writes on standard error; none where that is not ours to read
  bool is_child = true;  ///< false: somebody else started it, and nobody starts it again
};

/// Starts this program again as a worker; `environment` ("NAME=value") goes before our own. The kernel kills
/// it when the calling *thread* ends, so that has to be one that lives as long as the pool. Throws io.
StartedProcess start_worker_process(const std::vector<std::string>& environment);

/// How it ended: "was killed by signal 9 (Killed)", "ended with status 3". Waits a little for a process that
/// is ending; kills it else.
std::string end_of(pid_t process);

/// Reads what is there of a worker's standard error, passes it on to ours, and keeps its last lines.
class LastWords {
 public:
  /// Any amount, without waiting. False when nothing will come any more.
  bool read(int descriptor);
  /// The last lines, or empty.
  std::string text() const;

 private:
  std::string tail_;
};

}  // namespace lockstep::pool
