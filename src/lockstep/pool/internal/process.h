// A worker process: how it is started, and what is known after its end.
#pragma once

#include <cstdint>
#include <functional>
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

/// A process that works for a crew, wherever it is and whoever started it.
struct StartedProcess {
  pid_t id = 0;      ///< 0: not known yet
  std::string name;  ///< "worker process 123"
  std::string host;
  Descriptor socket;
  Descriptor errors;  ///< reads its standard error; none if this process may not read it
  Descriptor output;  ///< the same for its standard output
  std::function<void()> kill;
  /// How it ended: "was killed by signal 9 (Killed)". Waits shortly for one that is ending, then kills it.
  std::function<std::string()> end;
  /// Whether it waits for a machine, so that its silence is none; empty: it never does.
  std::function<bool()> is_waiting{};
  bool can_be_replaced = true;  ///< false: a launcher started it, and nothing starts it again
};

/// Path of this program.
std::string program_path();
/// Differs for a program that was built again in another way. Throws io.
std::string build_of_program();

enum class WorkerOutput { inherited, captured };

/// Starts this program again as a worker; `environment` ("NAME=value") takes precedence over our own. The
/// kernel kills it when the calling *thread* ends, so call it from a thread that lives as long as the pool.
/// Throws io.
StartedProcess start_worker_process(const std::vector<std::string>& environment,
                                    WorkerOutput output = WorkerOutput::inherited);

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
