#include "lockstep/comm/sealed_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sodium.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/internal/seal.h"
#include "lockstep/comm/internal/socket.h"

namespace lockstep::comm {
namespace {

constexpr size_t kPublicKey = crypto_kx_PUBLICKEYBYTES, kMarkBytes = 32,
                 kHelloBytes = kPublicKey + kMarkBytes;
constexpr size_t kStreamHeader = crypto_secretstream_xchacha20poly1305_HEADERBYTES,
                 kSealTag = crypto_secretstream_xchacha20poly1305_ABYTES;
constexpr size_t kPiece = size_t{256} << 10;
constexpr size_t kReadAtOnce = size_t{1} << 20;
constexpr std::chrono::milliseconds kConnectTime{5000};
static_assert(std::tuple_size_v<Secret> == crypto_generichash_KEYBYTES &&
              crypto_kx_SESSIONKEYBYTES == crypto_secretstream_xchacha20poly1305_KEYBYTES);

const unsigned char* in(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* out(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

// A hash that only who knows the secret can make.
std::string keyed_hash(const Secret& secret, std::string_view purpose, std::string_view text) {
  const std::string whole = std::string(purpose) + ":" + std::string(text);
  std::string hash(kMarkBytes, '\0');
  crypto_generichash(out(hash), hash.size(), in(whole), whole.size(), secret.data(), secret.size());
  return hash;
}

}  // namespace

struct SealedSocket::State {
  Descriptor socket;
  Side side;
  Secret secret;
  std::string public_key = std::string(kPublicKey, '\0'), private_key = std::string(kPublicKey, '\0');
  std::string others_key{};
  enum class Stage { hello, header, open } stage = Stage::hello;
  crypto_secretstream_xchacha20poly1305_state sending{}, receiving{};
  bool can_send = false;
  bool ended = false;
  std::string refused{};
  std::string waiting{};  ///< plain bytes that are put before the connection is open
  std::string output{};   ///< sealed
  size_t sent = 0;
  std::string input{};

  State(Descriptor from, Side as, std::string_view text)
      : socket(std::move(from)), side(as), secret(secret_of(text)) {
    crypto_kx_keypair(out(public_key), out(private_key));
    const int yes = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
    if (side == Side::caller) output = public_key + keyed_hash(secret, "caller", public_key);
  }
  ~State() {
    ::sodium_memzero(private_key.data(), private_key.size());
    ::sodium_memzero(secret.data(), secret.size());
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void refuse(const std::string& why) {
    refused = why;
    ended = true;
    input.clear();
    output.clear();
    sent = 0;
  }

  void take_hello(const std::string& hello) {
    others_key = hello.substr(0, kPublicKey);
    // The listener's mark covers the caller's key, so that an old answer is of no use.
    const std::string expected = side == Side::listener
                                     ? keyed_hash(secret, "caller", others_key)
                                     : keyed_hash(secret, "listener", others_key + public_key);
    if (::sodium_memcmp(expected.data(), hello.data() + kPublicKey, kMarkBytes) != 0)
      return refuse("it does not know the secret");
    if (side == Side::listener)
      output += public_key + keyed_hash(secret, "listener", public_key + others_key);
    make_keys();
  }

  void make_keys() {
    std::string receive(crypto_kx_SESSIONKEYBYTES, '\0'), send(crypto_kx_SESSIONKEYBYTES, '\0');
    const auto agree = side == Side::caller ? crypto_kx_client_session_keys : crypto_kx_server_session_keys;
    if (agree(out(receive), out(send), in(public_key), in(private_key), in(others_key)) != 0)
      return refuse("its key is none");
    receive_key = keyed_hash(secret, "session", receive);
    std::string header(kStreamHeader, '\0');
    crypto_secretstream_xchacha20poly1305_init_push(&sending, out(header),
                                                    in(keyed_hash(secret, "session", send)));
    output += header;
    can_send = true;
    stage = Stage::header;
    const std::string early = std::exchange(waiting, {});
    seal_bytes(early);
    // The first message shows that this end made the keys itself, and did not repeat a recorded hello.
    if (early.empty()) seal_piece({});
  }
  std::string receive_key{};

  void seal_bytes(std::string_view bytes) {
    for (size_t at = 0; at < bytes.size(); at += kPiece) seal_piece(bytes.substr(at, kPiece));
  }

  void seal_piece(std::string_view piece) {
    const auto size = static_cast<uint32_t>(piece.size());
    const size_t at = output.size();
    output.resize(at + sizeof size + piece.size() + kSealTag);
    std::memcpy(output.data() + at, &size, sizeof size);
    crypto_secretstream_xchacha20poly1305_push(&sending, out(output) + at + sizeof size, nullptr, in(piece),
                                               piece.size(), reinterpret_cast<const unsigned char*>(&size),
                                               sizeof size, 0);
  }

  // Takes one part of the input. False if it is not whole yet.
  bool take_part(std::string& bytes, size_t& at) {
    const size_t there = input.size() - at;
    if (stage == Stage::hello) {
      if (there < kHelloBytes) return false;
      take_hello(input.substr(at, kHelloBytes));
      at += kHelloBytes;
      return !ended;
    }
    if (stage == Stage::header) {
      if (there < kStreamHeader) return false;
      if (crypto_secretstream_xchacha20poly1305_init_pull(&receiving, in(input) + at, in(receive_key)) != 0) {
        refuse("it does not know the secret");
        return false;
      }
      at += kStreamHeader;
      stage = Stage::open;
      return true;
    }
    uint32_t size = 0;
    if (there < sizeof size) return false;
    std::memcpy(&size, input.data() + at, sizeof size);
    if (size > kPiece) {
      refuse("what it sent was changed on the way");
      return false;
    }
    if (there < sizeof size + size + kSealTag) return false;
    const size_t had = bytes.size();
    bytes.resize(had + size);
    unsigned char tag = 0;
    if (crypto_secretstream_xchacha20poly1305_pull(
            &receiving, out(bytes) + had, nullptr, &tag, in(input) + at + sizeof size, size + kSealTag,
            reinterpret_cast<const unsigned char*>(&size), sizeof size) != 0) {
      bytes.resize(had);
      refuse(is_proven ? "what it sent was changed on the way" : "it does not know the secret");
      return false;
    }
    is_proven = true;
    at += sizeof size + size + kSealTag;
    return true;
  }
  bool is_proven = false;  ///< a message of the other end has arrived
};

SealedSocket::SealedSocket(Descriptor socket, Side side, std::string_view secret)
    : state_(std::make_unique<State>(std::move(socket), side, secret)) {}
SealedSocket::~SealedSocket() = default;
SealedSocket::SealedSocket(SealedSocket&&) noexcept = default;
SealedSocket& SealedSocket::operator=(SealedSocket&&) noexcept = default;

int SealedSocket::socket() const { return state_->socket.get(); }
bool SealedSocket::is_open() const { return state_->is_proven && !state_->ended; }
bool SealedSocket::closed() const { return state_->ended; }
const std::string& SealedSocket::refusal() const { return state_->refused; }

void SealedSocket::put(std::string_view bytes) {
  if (state_->ended) return;
  if (!state_->can_send) {
    state_->waiting += bytes;
  } else {
    state_->seal_bytes(bytes);
  }
}

size_t SealedSocket::unsent() const { return state_->output.size() - state_->sent + state_->waiting.size(); }
bool SealedSocket::has_to_send() const { return !state_->ended && state_->output.size() > state_->sent; }

bool SealedSocket::flush() {
  State& state = *state_;
  while (has_to_send()) {
    const ssize_t sent = ::send(state.socket.get(), state.output.data() + state.sent,
                                state.output.size() - state.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) {
      state.ended = true;
      break;
    }
    state.sent += static_cast<size_t>(sent);
  }
  if (state.sent == state.output.size()) {
    state.output.clear();
    state.sent = 0;
  } else if (state.sent > kReadAtOnce) {
    state.output.erase(0, state.sent);
    state.sent = 0;
  }
  return !state.ended;
}

bool SealedSocket::receive(std::string& bytes) {
  State& state = *state_;
  if (state.ended) return false;
  const size_t had = state.input.size();
  state.input.resize(had + kReadAtOnce);
  const ssize_t got = ::recv(state.socket.get(), state.input.data() + had, kReadAtOnce, MSG_DONTWAIT);
  const int reason = errno;
  state.input.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  size_t at = 0;
  while (!state.ended && state.take_part(bytes, at)) {
  }
  if (!state.ended) state.input.erase(0, at);
  if (got == 0 || (got < 0 && reason != EAGAIN && reason != EINTR)) state.ended = true;
  return !state.ended;
}

Descriptor listen_everywhere(uint16_t& port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0)
    throw Error(ErrorCode::communication, std::string("cannot listen for workers: ") + std::strerror(errno));
  port = port_of(socket);
  return socket;
}

std::deque<std::string> addresses_of_machine(const std::string& interface) {
  std::deque<std::string> addresses;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_UP) == 0)
      continue;
    if (interface.empty() ? (one->ifa_flags & IFF_LOOPBACK) != 0 : interface != one->ifa_name) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    if (::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text.data(),
                    text.size()) != nullptr)
      addresses.emplace_back(text.data());
  }
  ::freeifaddrs(list);
  return addresses;
}

Descriptor connect_to_address(const std::string& address, uint16_t port) {
  try {
    return connect_to(address, port, kConnectTime);
  } catch (const SocketFailure& failure) {
    throw Error(ErrorCode::communication,
                "cannot connect to " + address + ":" + std::to_string(port) + ": " + failure.why);
  }
}

namespace {

template <class Ask>
std::string address_of(int socket, Ask ask) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  std::array<char, INET_ADDRSTRLEN> text{};
  if (ask(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  return text.data();
}

}  // namespace

std::string own_address_of(int socket) { return address_of(socket, ::getsockname); }
std::string others_address_of(int socket) { return address_of(socket, ::getpeername); }

}  // namespace lockstep::comm
