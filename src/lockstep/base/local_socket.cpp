#include "lockstep/base/local_socket.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr timeval kPatience{.tv_sec = 2, .tv_usec = 0};

struct Address {
  sockaddr_un space{};
  socklen_t size = 0;
  explicit Address(const std::string& name) {
    space.sun_family = AF_UNIX;
    if (name.empty() || name.size() >= sizeof space.sun_path)
      throw errno_error(EINVAL, "name a socket", name.substr(0, sizeof space.sun_path));
    std::copy(name.begin(), name.end(), space.sun_path + 1);  // behind a zero: an abstract name
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&space); }
};

Descriptor make_socket(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) throw errno_error(errno, "make a socket for", name);
  return socket;
}

// Without a user if the kernel does not tell one.
ucred peer_of(const Descriptor& socket) {
  ucred peer{.pid = 0, .uid = static_cast<uid_t>(-1), .gid = static_cast<gid_t>(-1)};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    peer.uid = static_cast<uid_t>(-1);
  return peer;
}

}  // namespace

Descriptor listen_at_name(const std::string& name) {
  const Address address(name);
  Descriptor listening = make_socket(name);
  if (::bind(listening.get(), address.get(), address.size) != 0 || ::listen(listening.get(), SOMAXCONN) != 0)
    throw errno_error(errno, "listen at", name);
  return listening;
}

Descriptor connect_to_name(const std::string& name) {
  const Address address(name);
  Descriptor socket = make_socket(name);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  while (::connect(socket.get(), address.get(), address.size) != 0) {
    if (errno != EINTR) return Descriptor();
  }
  return socket;
}

bool peer_is_same_user(const Descriptor& socket) { return peer_of(socket).uid == ::geteuid(); }

pid_t peer_of_same_user(const Descriptor& socket) {
  const ucred peer = peer_of(socket);
  return peer.uid == ::geteuid() ? std::max<pid_t>(peer.pid, 0) : 0;
}

}  // namespace lockstep
