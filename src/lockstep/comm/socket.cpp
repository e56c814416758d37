#include "lockstep/comm/internal/socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::comm {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses addresses_of(const std::string& name, uint16_t port, int type) {
  addrinfo hints{};
  hints.ai_socktype = type;
  addrinfo* found = nullptr;
  if (const int reason = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found);
      reason != 0)
    throw SocketFailure{::gai_strerror(reason)};
  return {found, &::freeaddrinfo};
}

// Tries the addresses of the name until one works; throws the failure of the last one.
Descriptor first_of(const std::string& address, uint16_t port, int type,
                    const std::function<bool(int descriptor, const addrinfo& place)>& works) {
  const Addresses found = addresses_of(address, port, type);
  int reason = EADDRNOTAVAIL;
  for (const addrinfo* place = found.get(); place != nullptr; place = place->ai_next) {
    Descriptor socket(::socket(place->ai_family, place->ai_socktype | SOCK_CLOEXEC, place->ai_protocol));
    if (socket.get() >= 0 && works(socket.get(), *place)) return socket;
    reason = errno;
  }
  throw SocketFailure{std::strerror(reason), reason};
}

std::string text_of(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  if (const int reason = ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
      reason != 0)
    throw SocketFailure{::gai_strerror(reason)};
  return text.data();
}

bool connects(int descriptor, const addrinfo& place, std::chrono::milliseconds timeout) {
  timeval limit{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
  ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  return ::connect(descriptor, place.ai_addr, place.ai_addrlen) == 0;
}

}  // namespace

Descriptor listen_at(const std::string& address, uint16_t port) {
  return first_of(address, port, SOCK_STREAM, [](int descriptor, const addrinfo& place) {
    const int yes = 1;
    ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    return ::bind(descriptor, place.ai_addr, place.ai_addrlen) == 0 && ::listen(descriptor, SOMAXCONN) == 0;
  });
}

uint16_t port_of(const Descriptor& listening) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    throw SocketFailure{std::strerror(errno), errno};
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

Descriptor connect_to(const std::string& address, uint16_t port, std::chrono::milliseconds timeout) {
  Descriptor socket = first_of(address, port, SOCK_STREAM, [&](int descriptor, const addrinfo& place) {
    return connects(descriptor, place, timeout);
  });
  const int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return socket;
}

std::optional<std::string> address_of_name(const std::string& name) {
  try {
    const Addresses found = addresses_of(name, 0, SOCK_STREAM);
    return text_of(found->ai_addr, found->ai_addrlen);
  } catch (const SocketFailure&) {
    return std::nullopt;
  }
}

std::string own_address_towards(const std::string& address, uint16_t port) {
  std::string own;
  first_of(address, port, SOCK_DGRAM,
           [&](int descriptor, const addrinfo& place) {  // a datagram socket: nothing is sent
             sockaddr_storage name{};
             socklen_t size = sizeof name;
             if (::connect(descriptor, place.ai_addr, place.ai_addrlen) != 0 ||
                 ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size) != 0)
               return false;
             own = text_of(reinterpret_cast<const sockaddr*>(&name), size);
             return true;
           });
  return own;
}

std::string address_of_interface(const std::string& name) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) throw SocketFailure{std::strerror(errno), errno};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(found, &::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
      if (name != one->ifa_name || one->ifa_addr == nullptr || one->ifa_addr->sa_family != family ||
          (one->ifa_flags & IFF_UP) == 0)
        continue;
      return text_of(one->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    }
  }
  throw SocketFailure{"no network interface \"" + name + "\" that is up and has an address"};
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

}  // namespace lockstep::comm
