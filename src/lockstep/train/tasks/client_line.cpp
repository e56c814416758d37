#include "lockstep/train/tasks/client_line.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

constexpr const char* kName = "the connection to the client";
constexpr int kPollTime = 50;  // milliseconds; after this time at most, the end of the call is noticed

}  // namespace

ClientLine::ClientLine() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw errno_error(errno, "make", kName);
  read_ = Descriptor(ends[0]);  // kept open, so that writing without a reader is not an error
  write_ = Descriptor(ends[1]);
}

std::string ClientLine::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(read_.get());
}

void ClientLine::say(char word) const {
  while (::write(write_.get(), &word, 1) < 0 && errno == EINTR) {
  }
}

RankLine::RankLine(const std::string& path)
    : file_(path, O_RDONLY | O_NONBLOCK, kName),
      listener_([this](const std::stop_token& end) { listen(end); }) {}

void RankLine::listen(const std::stop_token& end) {
  pollfd wait{file_.get(), POLLIN, 0};
  while (!end.stop_requested()) {
    if (::poll(&wait, 1, kPollTime) <= 0) continue;
    char word = 0;
    const ssize_t got = ::read(file_.get(), &word, 1);
    if (got == 0) return;  // the client has ended, so its workers end too
    if (got < 0) continue;
    if (word == 's') stop_.request_stop();
    if (word == 'e') enough_.request_stop();
    if (word != 'y' && word != 'n') continue;
    const std::lock_guard lock(mutex_);
    answer_ = word == 'n' ? record::Control::stop : record::Control::go;
    changed_.notify_all();
  }
}

record::Control RankLine::answer(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop, [&] { return answer_.has_value(); });
  const record::Control answer = answer_.value_or(record::Control::go);
  answer_.reset();
  return answer;
}

}  // namespace lockstep::train
