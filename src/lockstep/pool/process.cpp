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
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/process.h"
#include "lockstep/pool/internal/pipe_stream.h"

namespace lockstep::pool {
namespace {

constexpr size_t kTailBytes = 4096;
constexpr size_t kMostLastLines = 5;
constexpr std::chrono::milliseconds kEndingTime{300};

}  // namespace

std::string program_path() {
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return size > 0 ? std::string(path.data(), static_cast<size_t>(size)) : "lockstep-worker";
}

std::string build_of_program() { return as_hex(hash_of(read_file("/proc/self/exe"))); }

StartedProcess start_worker_process(const std::vector<std::string>& environment, WorkerOutput output) {
  auto sockets = socket_ends();
  launch::Pipe errors = launch::make_pipe(), printed;
  if (output == WorkerOutput::captured) printed = launch::make_pipe();
  const pid_t process = launch::start_process(
      {.program =
           "/proc/self/exe",  // not its path: a program that was rebuilt meanwhile would be another one
       .words = {program_path(), kWorkerArgument, std::to_string(::getpid())},
       .environment = environment,
       .output = printed.writing ? printed.writing.get() : launch::kInherited,
       .errors = errors.writing.get(),
       .passed = sockets[1].get()});
  return {.id = process,
          .name = "worker process " + std::to_string(process),
          .host = host_name(),
          .socket = std::move(sockets[0]),
          .errors = std::move(errors.reading),
          .output = std::move(printed.reading),
          .kill = [process] { ::kill(process, SIGKILL); },
          .end = [process] { return end_of(process); }};
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
