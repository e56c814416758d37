#include "lockstep/comm/sealed_socket.h"

#include <array>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

std::array<Descriptor, 2> connected() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw std::bad_alloc();
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// Both ends, with a wire between them that a test can read and change.
struct Wire {
  std::array<Descriptor, 2> left = connected(), right = connected();
  SealedSocket caller, listener;
  std::string seen{}, at_caller{}, at_listener{};

  explicit Wire(const std::string& secret = "secret", const std::string& others = "secret")
      : caller(std::move(left[0]), SealedSocket::Side::caller, secret),
        listener(std::move(right[0]), SealedSocket::Side::listener, others) {}

  void read() {
    caller.receive(at_caller);
    listener.receive(at_listener);
  }

  // Carries bytes until none go; `change` may change them on their way to the listener.
  template <class Change>
  void carry(Change change) {
    for (int quiet = 0; quiet < 3;) {
      caller.flush(), listener.flush();
      const bool there = pass(left[1].get(), right[1].get(), change);
      const bool back = pass(right[1].get(), left[1].get(), [](std::string&) {});
      quiet = there || back ? 0 : quiet + 1;
      read();
    }
  }

  template <class Change>
  bool pass(int from, int to, Change change) {
    std::string bytes(size_t{1} << 16, '\0');
    const ssize_t got = ::recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got <= 0) return false;
    bytes.resize(static_cast<size_t>(got));
    seen += bytes;
    change(bytes);
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t sent = ::send(to, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) at += static_cast<size_t>(sent);
      if (sent <= 0) read();
    }
    return true;
  }
};

const auto kAsTheyAre = [](std::string&) {};

TEST(SealedSocket, BytesArriveAndCannotBeReadOnTheWay) {
  Wire wire;
  wire.caller.put("the weights of the network");
  EXPECT_FALSE(wire.listener.is_open());
  wire.carry(kAsTheyAre);
  EXPECT_EQ(wire.at_listener, "the weights of the network");
  EXPECT_TRUE(wire.caller.is_open());
  EXPECT_TRUE(wire.listener.is_open());
  wire.listener.put("thank you");
  wire.carry(kAsTheyAre);
  EXPECT_EQ(wire.at_caller, "thank you");
  EXPECT_EQ(wire.seen.find("weights"), std::string::npos);
  EXPECT_EQ(wire.seen.find("thank"), std::string::npos);
}

TEST(SealedSocket, WhoDoesNotKnowTheSecretIsRefused) {
  Wire wire("a guess", "secret");
  wire.caller.put("let me in");
  wire.carry(kAsTheyAre);
  EXPECT_TRUE(wire.listener.closed());
  EXPECT_EQ(wire.listener.refusal(), "it does not know the secret");
  EXPECT_EQ(wire.at_listener, "");
  EXPECT_FALSE(wire.caller.is_open());
}

TEST(SealedSocket, ARecordedConnectionCannotBeRepeated) {
  Wire first;
  std::string recorded;
  first.caller.put("train");
  first.carry([&](std::string& bytes) { recorded += bytes; });
  ASSERT_EQ(first.at_listener, "train");
  std::array<Descriptor, 2> ends = connected();
  SealedSocket listener(std::move(ends[0]), SealedSocket::Side::listener, "secret");
  ASSERT_EQ(::send(ends[1].get(), recorded.data(), recorded.size(), 0),
            static_cast<ssize_t>(recorded.size()));
  std::string repeated;
  while (listener.receive(repeated) && !listener.closed()) listener.flush();
  EXPECT_EQ(repeated, "");
  EXPECT_FALSE(listener.is_open());
  EXPECT_NE(listener.refusal(), "");
}

TEST(SealedSocket, AChangedByteEndsTheConnection) {
  Wire wire;
  wire.carry(kAsTheyAre);
  wire.caller.put("rate 0.01");
  wire.carry([](std::string& bytes) { bytes.back() = static_cast<char>(bytes.back() ^ 1); });
  EXPECT_EQ(wire.at_listener, "");
  EXPECT_EQ(wire.listener.refusal(), "what it sent was changed on the way");
}

TEST(SealedSocket, StrangersAtThePortAreRefused) {
  std::array<Descriptor, 2> ends = connected();
  SealedSocket listener(std::move(ends[0]), SealedSocket::Side::listener, "secret");
  const std::string request = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n" + std::string(200, 'x');
  ASSERT_GT(::send(ends[1].get(), request.data(), request.size(), 0), 0);
  std::string bytes;
  EXPECT_FALSE(listener.receive(bytes));
  EXPECT_EQ(bytes, "");
  EXPECT_NE(listener.refusal(), "");
}

TEST(SealedSocket, LargeMessages) {
  Wire wire;
  std::string large(3'000'000, 'a');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 2654435761U >> 13);
  wire.caller.put(large);
  wire.carry(kAsTheyAre);
  EXPECT_TRUE(wire.at_listener == large) << wire.at_listener.size();
}

}  // namespace
}  // namespace lockstep::comm
