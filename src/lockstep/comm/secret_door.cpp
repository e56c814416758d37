#include "lockstep/comm/internal/secret_door.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/local_socket.h"
#include "lockstep/base/random_hex.h"

namespace lockstep::comm {
namespace {

constexpr timeval kPatience{.tv_sec = 2, .tv_usec = 0};
constexpr std::chrono::milliseconds kPause{50};
constexpr const char* kPrefix = "lockstep-";
constexpr size_t kNameBytes = 16;

}  // namespace

SecretDoor::SecretDoor(const Secret& secret)
    : secret_(secret),
      name_(kPrefix + random_hex(kNameBytes)),
      listening_(listen_at_name(name_)),
      finished_(::eventfd(0, EFD_CLOEXEC)) {
  if (!finished_) throw errno_error(errno, "listen for", "other ranks");
  thread_ = std::thread([this] { run(); });
}

SecretDoor::~SecretDoor() {
  const uint64_t one = 1;
  while (::write(finished_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

void SecretDoor::run() const {
  while (true) {
    std::array<pollfd, 2> waits{pollfd{finished_.get(), POLLIN, 0}, pollfd{listening_.get(), POLLIN, 0}};
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[0].revents != 0) return;
    const Descriptor taken(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    // No descriptors are left: the process that asks tries again.
    if (!taken) std::this_thread::sleep_for(kPause);
    if (taken && peer_is_same_user(taken)) [[maybe_unused]]
      const ssize_t sent = ::send(taken.get(), secret_.data(), secret_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

bool is_door(const std::string& name) {
  return name.starts_with(kPrefix) && name.size() == std::strlen(kPrefix) + 2 * kNameBytes;
}

std::optional<Secret> ask_at_door(const std::string& name) {
  const Descriptor socket = connect_to_name(name);
  if (!socket || !peer_is_same_user(socket)) return std::nullopt;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  Secret secret{};
  if (::recv(socket.get(), secret.data(), secret.size(), MSG_WAITALL) != static_cast<ssize_t>(secret.size()))
    return std::nullopt;
  return secret;
}

}  // namespace lockstep::comm
