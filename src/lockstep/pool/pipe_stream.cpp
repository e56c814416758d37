#include "lockstep/pool/internal/pipe_stream.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep::pool {
namespace {

constexpr size_t kPipeRead = size_t{1} << 20;
constexpr size_t kPipeKept = size_t{4} << 20;  // bytes that were sent and are still in the buffer

}  // namespace

std::array<Descriptor, 2> socket_ends() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw errno_error(errno, "make", "a socket between a client and a worker");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

PipeStream::PipeStream(Descriptor reading, Descriptor writing)
    : reading_(std::move(reading)), writing_(std::move(writing)) {
  for (const int end : {reading_.get(), writing_.get()}) {
    ::fcntl(end, F_SETFL, ::fcntl(end, F_GETFL) | O_NONBLOCK);
    ::fcntl(end, F_SETFD, FD_CLOEXEC);
  }
}

bool PipeStream::flush() {
  while (has_to_send()) {
    const char* from = output_.data() + sent_;
    ssize_t sent = ::send(writing_.get(), from, unsent(), MSG_NOSIGNAL);
    if (sent < 0 && errno == ENOTSOCK) sent = ::write(writing_.get(), from, unsent());
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) return false;
    sent_ += static_cast<size_t>(sent);
  }
  if (sent_ == output_.size() || sent_ > kPipeKept) {
    output_.erase(0, sent_);
    sent_ = 0;
  }
  return true;
}

bool PipeStream::receive(std::string& bytes) {
  const size_t had = bytes.size();
  bytes.resize(had + kPipeRead);
  const ssize_t got = ::read(reading_.get(), bytes.data() + had, kPipeRead);
  const int reason = errno;
  bytes.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return got > 0 || (got < 0 && (reason == EAGAIN || reason == EINTR));
}

}  // namespace lockstep::pool
