// Starts processes: their environment, descriptors, process group and lifetime.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "lockstep/base/descriptor.h"

namespace lockstep::launch {

enum class Lifetime {
  starter,   ///< the kernel kills the process when the thread that started it ends
  detached,  ///< the process has its own session and outlives its starter
};

/// In the place of a descriptor: the starter's own, and /dev/null.
inline constexpr int kInherited = -1;
inline constexpr int kNull = -2;

/// Where the process finds Start::passed.
inline constexpr int kPassedDescriptor = 3;

/// The program to start, and its surroundings.
struct Start {
  std::string program;             ///< a path, or a name that is searched for in PATH
  std::vector<std::string> words;  ///< argv: the program's name, then its arguments
  std::vector<std::string>
      environment{};  ///< "NAME=value": these replace the starter's variables of the same name
  int input = kNull;
  int output = kInherited;
  int errors = kInherited;
  int passed = -1;  ///< an open descriptor, or -1 for none
  int gate = -1;    ///< of a Gate that must open before the program runs, or -1
  Lifetime lifetime = Lifetime::starter;
};

/// Holds processes that have been started until all is ready for what their programs may start in turn. While
/// they wait, they end with their starter, detached ones too. One thread at a time.
class Gate {
 public:
  Gate();  ///< throws io
  int descriptor() const { return descriptor_.get(); }
  /// Lets so many processes pass.
  void open(size_t processes) const;

 private:
  Descriptor descriptor_;
};

/// Starts a process and returns its id. It leads a process group, blocks no signal and has the default action
/// for SIGPIPE and SIGCHLD. A detached process inherits only the descriptors that Start names. A process that
/// cannot execute the program writes the reason to its standard error and ends with status 127. The caller
/// waits for the process (wait_for_end, try_wait_for_end). Throws io.
pid_t start_process(const Start& start);

/// Starts a detached process whose standard output and standard error are appended to a file.
pid_t start_detached(Start start, const std::filesystem::path& output);

/// The two ends of a pipe. A started program has neither of them unless Start names it. Reading does not
/// wait.
struct Pipe {
  Descriptor reading;
  Descriptor writing;
};

/// Throws io.
Pipe make_pipe();

/// Reads what a pipe holds now, in pieces. Returns false at the end of the stream.
bool read_available(int descriptor, const std::function<void(std::string_view)>& take);

/// How a process of start_process ended: a status of waitpid, or nothing if other code of this program has
/// waited for the process.
struct End {
  std::optional<int> status;
};

/// Nothing while the process runs. After an end was returned, the system may give the id to another process.
std::optional<End> try_wait_for_end(pid_t process);

/// Waits without a limit.
End wait_for_end(pid_t process);

/// Nothing if a stop was requested, or `until` has come, before the end; the process goes on then.
std::optional<End> wait_for_end(
    pid_t process, const std::stop_token& stop,
    std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max());

/// Sends a signal to a process of start_process and to all that it has started and that stayed in its group.
/// False if the group has no process, or does not exist yet.
bool signal_group(pid_t process, int signal);

/// Kills a process of start_process with all that it has started, and waits for the process.
void kill_group(pid_t process);

/// What a shell adds to the number of the signal that killed a program.
inline constexpr int kSignalStatus = 128;

/// The status that a shell has for a status of waitpid: that of exit, or kSignalStatus and the signal.
int exit_status(int status);

/// A status of waitpid: "was killed by signal 9 (Killed)", "ended with status 1".
std::string text_of_status(int status);

}  // namespace lockstep::launch
