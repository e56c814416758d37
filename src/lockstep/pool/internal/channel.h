// Frames over a socket between a client and a worker: a JSON header, then bytes, and sometimes a file
// descriptor. The sockets are pairs that the client made and the worker inherited. They have no name and no
// port, so no other process can reach them, and nothing needs to be encrypted or authenticated.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/json.h"

namespace lockstep::pool {

struct Frame {
  Json header;
  std::shared_ptr<const std::string> bytes{};  ///< tensors; may be null
  Descriptor descriptor{};                     ///< sent along; may be none
};

/// What one side may send at most. A longer length is refused before anything is allocated for it.
inline constexpr uint64_t kMostHeaderBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMostFrameBytes = uint64_t{64} << 30;

/// Throws invalid_option for texts that are not UTF-8 and for a frame that is too large.
void check_frame(const Frame& frame);

/// The header that says a word to the task of a call.
Json word_header(int64_t call, const std::string& word);

/// One end of the socket, which does not block. One thread at a time.
class Channel {
 public:
  explicit Channel(Descriptor socket) : socket_(std::move(socket)) {}

  int socket() const { return socket_.get(); }
  /// Throws what check_frame throws.
  void put(Frame frame);
  bool has_to_send() const { return !out_.empty(); }
  /// Sends as much as the socket accepts now. False if the other end is gone.
  bool flush();
  /// The frames that have arrived completely. Throws corrupt_data for anything that is not a frame.
  std::vector<Frame> receive();
  bool closed() const { return closed_; }
  /// Counts all bytes that have arrived.
  uint64_t received() const { return received_; }

 private:
  struct Outgoing {
    std::string head;  ///< lengths and header
    std::shared_ptr<const std::string> bytes;
    Descriptor descriptor;
    size_t sent = 0;
  };
  bool send_some(Outgoing& frame);
  bool read_some();
  void take_prefix(const std::string& text);
  void take_header(const std::string& text);

  Descriptor socket_;
  std::deque<Outgoing> out_;
  bool closed_ = false;
  uint64_t received_ = 0;

  enum class Stage { prefix, header, bytes, whole } stage_ = Stage::prefix;
  std::string in_;
  size_t wanted_ = 0;
  uint64_t bytes_wanted_ = 0;
  Frame frame_;
  bool would_block_ = false;
};

}  // namespace lockstep::pool
