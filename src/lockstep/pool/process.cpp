#include "lockstep/pool/internal/process.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/process.h"

namespace lockstep::pool {
namespace {

constexpr size_t kTailBytes = 4096;
constexpr size_t kMostLastLines = 5;
constexpr std::chrono::milliseconds kEndingTime{300};

std::string program_path() {
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return size > 0 ? std::string(path.data(), static_cast<size_t>(size)) : "lockstep-worker";
}

}  // namespace

StartedProcess start_worker_process(const std::vector<std::string>& environment) {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    throw errno_error(errno, "start", "a worker process");
  Descriptor own_socket(sockets[0]);
  const Descriptor its_socket(sockets[1]);
  launch::Pipe errors = launch::make_pipe();
  const pid_t process = launch::start_process(
      {.program =
           "/proc/self/exe",  // not its path: a program that was rebuilt meanwhile would be another one
       .words = {program_path(), kWorkerArgument, std::to_string(::getpid())},
       .environment = environment,
       .errors = errors.writing.get(),
       .passed = its_socket.get()});
  return {.id = process,
          .name = "worker process " + std::to_string(process),
          .socket = std::move(own_socket),
          .errors = std::move(errors.reading)};
}

std::string end_of(pid_t process) {
  const auto until = std::chrono::steady_clock::now() + kEndingTime;
  bool killed = false;
  while (true) {
    if (const std::optional<launch::End> end = launch::try_wait_for_end(process)) {
      if (!end->status) return "ended";
      return killed ? "closed its connection and was ended" : launch::text_of_status(*end->status);
    }
    if (!killed && std::chrono::steady_clock::now() >= until) {
      ::kill(process, SIGKILL);
      killed = true;
    } else if (std::chrono::steady_clock::now() >= until + kEndingTime) {
      return "does not end";  // in a system call that nothing interrupts; the kernel kills it after the call
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool LastWords::read(int descriptor) {
  return launch::read_available(descriptor, [this](std::string_view text) {
    [[maybe_unused]] const ssize_t passed = ::write(STDERR_FILENO, text.data(), text.size());
    tail_.append(text);
    if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  });
}

std::string LastWords::text() const {
  std::vector<std::string> lines;
  for (const std::string& line : split(tail_, '\n')) {
    if (!line.empty()) lines.push_back(line);
  }
  const size_t first = lines.size() > kMostLastLines ? lines.size() - kMostLastLines : 0;
  return join({lines.begin() + static_cast<std::ptrdiff_t>(first), lines.end()}, " | ");
}

}  // namespace lockstep::pool
