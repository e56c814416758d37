#include "lockstep/pool/internal/channel.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::pool {
namespace {

constexpr uint32_t kMagic = 0x4c534632;  // "LSF2": detects a stray write into the socket
constexpr size_t kPieceBytes = size_t{1} << 20;

struct Prefix {
  uint32_t magic = kMagic;
  uint32_t header_bytes = 0;
  uint64_t bytes = 0;
};

[[noreturn]] void corrupt(const std::string& why) {
  throw Error(ErrorCode::corrupt_data, "a message between client and worker cannot be read: " + why);
}

std::string header_text(const Frame& frame) {
  std::string text;
  try {
    text = frame.header.dump();
  } catch (const Json::exception&) {
    throw Error(ErrorCode::invalid_option, "a text that travels between client and worker is not UTF-8");
  }
  const uint64_t bytes = frame.bytes == nullptr ? 0 : frame.bytes->size();
  if (text.size() <= kMostHeaderBytes && bytes <= kMostFrameBytes) return text;
  throw Error(ErrorCode::invalid_option,
              "what is to be sent between client and worker is too large: " + std::to_string(text.size()) +
                  " bytes of fields and " + std::to_string(bytes) + " of tensors",
              "name a file instead of sending what is in it; long lists are smaller as tensors");
}

int sent_descriptor(const msghdr& message) {
  for (cmsghdr* item = CMSG_FIRSTHDR(&message); item != nullptr;
       item = CMSG_NXTHDR(const_cast<msghdr*>(&message), item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(item), sizeof descriptor);
    return descriptor;
  }
  return -1;
}

}  // namespace

void check_frame(const Frame& frame) { header_text(frame); }

Json word_header(int64_t call, const std::string& word) {
  return {{"kind", "say"}, {"call", call}, {"word", word}};
}

void Channel::put(Frame frame) {
  const std::string header = header_text(frame);
  const Prefix prefix{.header_bytes = static_cast<uint32_t>(header.size()),
                      .bytes = frame.bytes == nullptr ? 0 : frame.bytes->size()};
  out_.push_back({.head = std::string(reinterpret_cast<const char*>(&prefix), sizeof prefix) + header,
                  .bytes = std::move(frame.bytes),
                  .descriptor = std::move(frame.descriptor)});
}

bool Channel::send_some(Outgoing& frame) {
  const bool in_head = frame.sent < frame.head.size();
  const std::string& text = in_head ? frame.head : *frame.bytes;
  const size_t from = in_head ? frame.sent : frame.sent - frame.head.size();
  iovec piece{.iov_base = const_cast<char*>(text.data()) + from,
              .iov_len = std::min(text.size() - from, kPieceBytes)};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (frame.descriptor) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    const int descriptor = frame.descriptor.get();
    std::memcpy(CMSG_DATA(item), &descriptor, sizeof descriptor);
  }
  const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) {
    would_block_ = errno == EAGAIN;
    return would_block_ || errno == EINTR;
  }
  frame.descriptor = Descriptor();
  frame.sent += static_cast<size_t>(sent);
  return true;
}

bool Channel::flush() {
  would_block_ = false;
  while (!out_.empty() && !would_block_) {
    Outgoing& frame = out_.front();
    if (!send_some(frame)) {
      closed_ = true;
      return false;
    }
    if (frame.sent == frame.head.size() + (frame.bytes == nullptr ? 0 : frame.bytes->size()))
      out_.pop_front();
  }
  return true;
}

// False when there is nothing more to read now.
bool Channel::read_some() {
  const size_t had = in_.size();
  // Grows as bytes arrive: a length alone allocates no memory.
  in_.resize(std::min(wanted_, had + kPieceBytes));
  iovec piece{.iov_base = in_.data() + had, .iov_len = in_.size() - had};
  msghdr message{};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const int reason = errno;
  in_.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got > 0) {
    received_ += static_cast<uint64_t>(got);
    if (const int descriptor = sent_descriptor(message); descriptor >= 0)
      frame_.descriptor = Descriptor(descriptor);
    return true;
  }
  if (got < 0 && reason == EINTR) return true;
  if (got == 0 || reason != EAGAIN) closed_ = true;
  return false;
}

void Channel::take_prefix(const std::string& text) {
  Prefix prefix;
  std::memcpy(&prefix, text.data(), sizeof prefix);
  if (prefix.magic != kMagic) corrupt("it does not begin as one");
  if (prefix.header_bytes > kMostHeaderBytes || prefix.bytes > kMostFrameBytes)
    corrupt("it would have " + std::to_string(prefix.header_bytes) + " + " + std::to_string(prefix.bytes) +
            " bytes");
  bytes_wanted_ = prefix.bytes;
  wanted_ = prefix.header_bytes;
  stage_ = Stage::header;
}

void Channel::take_header(const std::string& text) {
  frame_.header = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!frame_.header.is_object()) corrupt("its header is no JSON object");
  wanted_ = bytes_wanted_;
  stage_ = wanted_ > 0 ? Stage::bytes : Stage::whole;
}

std::vector<Frame> Channel::receive() {
  std::vector<Frame> frames;
  while (true) {
    if (stage_ == Stage::prefix) wanted_ = sizeof(Prefix);
    while (in_.size() < wanted_) {
      if (!read_some()) return frames;
    }
    std::string whole = std::exchange(in_, {});
    if (stage_ == Stage::prefix) {
      take_prefix(whole);
    } else if (stage_ == Stage::header) {
      take_header(whole);
    } else {
      frame_.bytes = std::make_shared<const std::string>(std::move(whole));
      stage_ = Stage::whole;
    }
    if (stage_ != Stage::whole) continue;
    frames.push_back(std::exchange(frame_, {}));
    stage_ = Stage::prefix;
  }
}

}  // namespace lockstep::pool
