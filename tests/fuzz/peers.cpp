// What other processes send: the frames of a pool, the control line of ranks on several machines, and the
// values of the store where ranks meet.
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

#include <sys/socket.h>
#include <sys/un.h>

#include "driver.h"
#include "lockstep/base/error.h"
#include "lockstep/comm/internal/control_line.h"
#include "lockstep/comm/internal/introductions.h"
#include "lockstep/pool/internal/channel.h"
#include "lockstep/pool/packet.h"

using namespace lockstep;

namespace {

struct Part {
  bool flag = false;
  at::Tensor b{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("flag", self.flag, "");
    field("b", self.b, "");
  };
};

struct Message {
  int64_t count = 0;
  double share = 0;
  std::string name{};
  std::vector<int64_t> numbers{};
  at::Tensor a{};
  Part part{};
  std::vector<Part> parts{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("count", self.count, "");
    field("share", self.share, "");
    field("name", self.name, "");
    field("numbers", self.numbers, "");
    field("a", self.a, "");
    field("part", self.part, "");
    field("parts", self.parts, "");
  };
};

std::array<Descriptor, 2> socket_pair() {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    throw errno_error(errno, "make", "sockets");
  return {Descriptor(sockets[0]), Descriptor(sockets[1])};
}

void read_frames(std::string_view input) {
  auto [far, near] = socket_pair();
  pool::Channel channel(std::move(near));
  while (!input.empty()) {
    const ssize_t sent = ::send(far.get(), input.data(), input.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) input.remove_prefix(static_cast<size_t>(sent));
    for (pool::Frame& frame : channel.receive())
      pool::unpack<Message>(
          {.fields = std::move(frame.header), .tensors = {}, .bytes = std::move(frame.bytes)});
  }
}

// Each frame begins correctly, and has the lengths of its content.
void repair_frames(std::string& input) {
  constexpr size_t kPrefix = 16;
  constexpr uint32_t kMagic = 0x4c534632;
  for (size_t at = 0; at + kPrefix <= input.size();) {
    const uint64_t rest = input.size() - at - kPrefix;
    uint32_t header = 0;
    uint64_t bytes = 0;
    std::memcpy(&header, input.data() + at + 4, sizeof header);
    std::memcpy(&bytes, input.data() + at + 8, sizeof bytes);
    header = static_cast<uint32_t>(std::min<uint64_t>(header, rest));
    bytes = std::min(bytes, rest - header);
    std::memcpy(input.data() + at, &kMagic, sizeof kMagic);
    std::memcpy(input.data() + at + 4, &header, sizeof header);
    std::memcpy(input.data() + at + 8, &bytes, sizeof bytes);
    at += kPrefix + header + bytes;
  }
}

constexpr const char* kToken = "token";
constexpr std::chrono::milliseconds kNews{20};

void send_all(const Descriptor& to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;  // it does not listen any more
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  ::shutdown(to.get(), SHUT_WR);
}

// Listens at a name that the system chooses.
Descriptor listening(sockaddr_un& address, socklen_t& size) {
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  address.sun_family = AF_UNIX;
  size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket.get(), any, sizeof address.sun_family) != 0 || ::listen(socket.get(), 8) != 0 ||
      ::getsockname(socket.get(), any, &size) != 0)
    throw errno_error(errno, "listen at", "a socket");
  return socket;
}

// What rank 0 says to rank 1, or what a stranger says who found rank 0's port, and perhaps the token.
void read_control(std::string_view input) {
  const bool hub = input.size() % 2 == 0;
  const comm::Members members{.rank = hub ? 0 : 1, .names = {"rank 0", "rank 1"}, .token = kToken};
  if (!hub) {
    auto [far, near] = socket_pair();
    const comm::ControlLine line(members, std::move(near), [] {});
    send_all(far, input);
    line.failure_within(kNews);
    return;
  }
  sockaddr_un address{};
  socklen_t size = 0;
  Descriptor socket = listening(address, size);
  const comm::ControlLine line(members, std::move(socket), [] {});
  const auto say = [&](std::string_view bytes) {
    Descriptor far(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(far.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
      throw errno_error(errno, "reach", "rank 0");
    send_all(far, bytes);
    return far;
  };
  const Descriptor first = say(input);
  line.failure_within(kNews);
  std::string hello(1024, '\0');  // so that it does not wait for its rank when it ends
  hello[0] = 1;
  hello[4] = 1;
  hello.replace(8, 5, kToken);
  const Descriptor second = say(hello);
  line.failure_within(kNews);
}

// If ranks have no secret, their store has what anybody wrote; if they have one, nothing is accepted.
void read_meeting(std::string_view input) {
  const std::string text(input);
  if (const Json said = comm::introduction_in(text); !said.is_null()) comm::name_of(1, said);
  for (const std::string& rank : comm::roster_in(text).ranks) comm::introduction_in(rank);
  comm::is_door(text);
  if (comm::unseal(comm::secret_of(kToken), text.substr(0, 4), {input.begin(), input.end()}))
    throw std::logic_error("what nobody sealed was opened");
}

}  // namespace

int main(int argc, char** argv) {
  const std::array readers{fuzz::Reader{"frames", read_frames, repair_frames},
                           fuzz::Reader{"control", read_control}, fuzz::Reader{"meeting", read_meeting}};
  return fuzz::run(argc, argv, readers);
}
