#include "lockstep/sweep/internal/trial_host.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "lockstep/base/error.h"

namespace lockstep::sweep {

TrialHost::~TrialHost() { kill(); }

void TrialHost::open() {
  if (process_ >= 0) return;
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw errno_error(errno, "make", "a socket for trials");
  Descriptor own(ends[0]);
  const Descriptor other(ends[1]);
  ::fcntl(own.get(), F_SETFL, O_NONBLOCK);
  process_ =
      launch::start_process({.program = lockstep_,
                             .words = {"lockstep", "sweep-trials", "--memory", std::to_string(memory_)},
                             .output = launch::kNull,
                             .passed = other.get()});
  socket_ = std::move(own);
}

void TrialHost::start(const TrialOrder& order) {
  open();
  trained_.push_back(order.id);
  send(order);
}

void TrialHost::stop(int64_t id) {
  if (process_ >= 0) send({.id = id});
}

// What a dead process does not take is lost with it, and ends() tells.
void TrialHost::send(const TrialOrder& order) {
  const std::string line = to_json(order).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t sent = ::send(socket_.get(), line.data() + at, line.size() - at, MSG_NOSIGNAL);
    if (sent > 0) {
      at += static_cast<size_t>(sent);
    } else if (errno == EAGAIN) {
      pollfd room{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
      ::poll(&room, 1, -1);  // its death ends the wait, too
    } else if (errno != EINTR) {
      return;
    }
  }
}

std::vector<HostedEnd> TrialHost::ends() {
  std::vector<HostedEnd> ended;
  if (process_ < 0) return ended;
  const auto end = launch::try_wait_for_end(process_);  // first: what it sent before is read below
  launch::read_available(socket_.get(), [&](std::string_view piece) { unread_ += piece; });
  for (size_t at; (at = unread_.find('\n')) != std::string::npos; unread_.erase(0, at + 1)) {
    TrialAnswer answer;
    read_json(parse_json(unread_.substr(0, at)), answer, "an answer of the process for trials");
    if (!answer.note.empty()) {
      note_ = std::move(answer.note);
      continue;
    }
    peak_memory_ = std::max(peak_memory_, answer.peak_memory);
    std::erase(trained_, answer.id);
    ended.push_back({answer.id, launch::End{static_cast<int>(answer.status) << 8}, answer.code});
  }
  if (!end) return ended;
  for (const int64_t id : trained_) ended.push_back({id, *end, {}});
  close();
  return ended;
}

void TrialHost::close() {
  process_ = -1;
  socket_ = Descriptor();
  unread_.clear();
  trained_.clear();
}

void TrialHost::kill() {
  if (process_ < 0) return;
  ::kill(process_, SIGKILL);
  launch::wait_for_end(process_);
  close();
}

}  // namespace lockstep::sweep
