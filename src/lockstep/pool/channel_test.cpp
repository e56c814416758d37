#include <array>
#include <cstring>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/pool/internal/channel.h"

namespace lockstep::pool {
namespace {

struct Pair {
  Descriptor raw;  ///< the other end, as bytes
  Channel channel;
};

Pair make_pair() {
  std::array<int, 2> sockets{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()), 0);
  return {Descriptor(sockets[0]), Channel(Descriptor(sockets[1]))};
}

void write_all(const Descriptor& to, const std::string& bytes) {
  ASSERT_EQ(::write(to.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
}

std::string prefix(uint32_t magic, uint32_t header, uint64_t bytes) {
  std::string text(16, '\0');
  std::memcpy(text.data(), &magic, 4);
  std::memcpy(text.data() + 4, &header, 4);
  std::memcpy(text.data() + 8, &bytes, 8);
  return text;
}
constexpr uint32_t kMagic = 0x4c534632;

ErrorCode code_of(const std::string& bytes) {
  Pair pair = make_pair();
  write_all(pair.raw, bytes);
  try {
    pair.channel.receive();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

TEST(Channel, FramesComeWholeInAnyPieces) {
  Pair pair = make_pair();
  const std::string header = R"({"kind":"value"})";
  const std::string bytes =
      prefix(kMagic, static_cast<uint32_t>(header.size()), 3) + header + "abc" + prefix(kMagic, 2, 0) + "{}";
  std::vector<Frame> frames;
  for (const char byte : bytes) {
    write_all(pair.raw, std::string(1, byte));
    for (Frame& frame : pair.channel.receive()) frames.push_back(std::move(frame));
  }
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].header.at("kind"), "value");
  EXPECT_EQ(*frames[0].bytes, "abc");
  EXPECT_EQ(frames[1].bytes, nullptr);
  EXPECT_EQ(pair.channel.received(), bytes.size());
  pair.raw = Descriptor();
  EXPECT_TRUE(pair.channel.receive().empty());
  EXPECT_TRUE(pair.channel.closed());
}

TEST(Channel, LargeFramesAndDescriptorsTravel) {
  Pair pair = make_pair();
  Channel other(std::move(pair.raw));
  Descriptor memory(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::write(memory.get(), "hello", 5), 5);
  other.put({.header = {{"kind", "begin"}},
             .bytes = std::make_shared<const std::string>(5'000'000, 'x'),
             .descriptor = std::move(memory)});
  std::vector<Frame> frames;
  while (frames.empty()) {
    ASSERT_TRUE(other.flush());
    for (Frame& frame : pair.channel.receive()) frames.push_back(std::move(frame));
  }
  EXPECT_FALSE(other.has_to_send());
  EXPECT_EQ(*frames[0].bytes, std::string(5'000'000, 'x'));
  std::array<char, 8> text{};
  ASSERT_TRUE(frames[0].descriptor);
  EXPECT_EQ(::pread(frames[0].descriptor.get(), text.data(), text.size(), 0), 5);
  EXPECT_STREQ(text.data(), "hello");
}

TEST(Channel, RefusesWhatIsNoFrame) {
  EXPECT_EQ(code_of("printed by a stray write into the socket"), ErrorCode::corrupt_data);
  EXPECT_EQ(code_of(prefix(kMagic, 0xffffffff, 0)), ErrorCode::corrupt_data);
  EXPECT_EQ(code_of(prefix(kMagic, 2, uint64_t{1} << 60)), ErrorCode::corrupt_data);
  EXPECT_EQ(code_of(prefix(kMagic, 4, 0) + "[{}]"), ErrorCode::corrupt_data);
  EXPECT_EQ(code_of(prefix(kMagic, 2, 0) + "{\""), ErrorCode::corrupt_data);
  EXPECT_EQ(code_of(prefix(kMagic, 0, 0)), ErrorCode::corrupt_data);
}

int64_t most_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

TEST(Channel, ALengthTakesNoMemory) {
  Pair pair = make_pair();
  const int64_t before = most_memory();
  write_all(pair.raw, prefix(kMagic, 2, uint64_t{32} << 30) + "{}some");
  EXPECT_TRUE(pair.channel.receive().empty());
  EXPECT_LT(most_memory() - before, int64_t{64} << 20);
}

TEST(Channel, RefusesToSendWhatIsNoText) {
  EXPECT_THROW(check_frame({.header = {{"text", "\xff"}}}), Error);
  EXPECT_THROW(check_frame({.header = {{"text", std::string(kMostHeaderBytes, 'x')}}}), Error);
}

}  // namespace
}  // namespace lockstep::pool
