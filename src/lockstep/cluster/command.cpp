#include "lockstep/cluster/command.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <poll.h>
#include <sys/wait.h>
#include <csignal>
#include <unistd.h>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/no_pipe_signal.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/process.h"

namespace lockstep::cluster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostOutput = size_t{64} << 20;
constexpr std::chrono::milliseconds kStopPause{100};  // between looks at a stop

// Unlike launch::make_pipe, the starter's end is the one that writes.
launch::Pipe make_input_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw errno_error(errno, "make", "a pipe for a process");
  launch::Pipe pipe{Descriptor(ends[0]), Descriptor(ends[1])};
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  return pipe;
}

class RunningCommand {
 public:
  RunningCommand(const std::vector<std::string>& words, const CommandRun& how)
      : name_(words.front()),
        show_(how.show),
        stop_(how.stop),
        left_(how.input),
        deadline_(Clock::now() + how.limit) {
    process_ = launch::start_process({.program = words.front(),
                                      .words = words,
                                      .environment = how.environment,
                                      .input = input_.reading.get(),
                                      .output = output_.writing.get(),
                                      .errors = errors_.writing.get()});
    input_.reading = {};
    output_.writing = {};
    errors_.writing = {};
    if (left_.empty()) input_.writing = {};
  }
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;
  ~RunningCommand() {
    if (process_ <= 0) return;
    launch::kill_group(process_);
  }

  CommandEnd wait() {
    CommandEnd end;
    while (output_.reading || errors_.reading) {
      if (stop_.stop_requested()) throw stopped();
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
      if (stop_.stop_possible()) left = std::min(left, kStopPause);
      if (left.count() <= 0) {
        end.out_of_time = true;
        break;
      }
      pass(end, static_cast<int>(left.count()));
    }
    // A command may go on after it has closed its outputs.
    std::optional<launch::End> ended;
    if (!end.out_of_time) ended = launch::wait_for_end(process_, stop_, deadline_);
    if (!ended && !end.out_of_time && stop_.stop_requested()) throw stopped();
    if (!ended) {
      end.out_of_time = true;
      launch::signal_group(process_, SIGKILL);
      ended = launch::wait_for_end(process_);
    }
    process_ = -1;
    end.status = launch::exit_status(ended->status.value_or(0));
    return end;
  }

 private:
  Error stopped() const { return {ErrorCode::cancelled, "stopped waiting for " + name_}; }
  void pass(CommandEnd& end, int milliseconds) {
    std::array<pollfd, 3> waits{pollfd{output_.reading.get(), POLLIN, 0},
                                pollfd{errors_.reading.get(), POLLIN, 0},
                                pollfd{input_.writing.get(), POLLOUT, 0}};
    if (::poll(waits.data(), waits.size(), milliseconds) <= 0) return;
    if (waits[0].revents != 0) read(output_, end.output, show_);
    if (waits[1].revents != 0) read(errors_, end.errors, {});
    if (waits[2].revents != 0) write();
  }
  static void read(launch::Pipe& pipe, std::string& text, const std::function<void(std::string_view)>& show) {
    const bool open = launch::read_available(pipe.reading.get(), [&](std::string_view piece) {
      if (show) show(piece);
      text += piece.substr(0, kMostOutput - std::min(kMostOutput, text.size()));
    });
    if (!open) pipe.reading = {};
  }
  // A closed pipe means that the command reads no more.
  void write() {
    const NoPipeSignal no_pipe_signal;
    const ssize_t written = ::write(input_.writing.get(), left_.data(), left_.size());
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
    left_.erase(0, written < 0 ? left_.size() : static_cast<size_t>(written));
    if (left_.empty()) input_.writing = {};
  }

  launch::Pipe input_ = make_input_pipe(), output_ = launch::make_pipe(), errors_ = launch::make_pipe();
  const std::string name_;
  const std::function<void(std::string_view)> show_;
  const std::stop_token stop_;
  std::string left_;
  Clock::time_point deadline_;
  pid_t process_ = -1;
};

}  // namespace

CommandEnd run_command(const std::vector<std::string>& words, const CommandRun& how) {
  return RunningCommand(words, how).wait();
}

// As execvp(3) looks for it.
bool has_program(const std::string& name, const std::filesystem::path& folder) {
  const char* path = std::getenv("PATH");
  for (const std::string& one : split(path == nullptr ? "/bin:/usr/bin" : path, ':')) {
    const std::filesystem::path program = folder / one / name;  // an empty one is the folder itself
    std::error_code none;
    if (std::filesystem::is_regular_file(program, none) && ::access(program.c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace lockstep::cluster
