// Bytes to and from another process through descriptors that do not wait.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "lockstep/base/descriptor.h"

namespace lockstep::pool {

/// Both ends of a socket without a name. Throws io.
std::array<Descriptor, 2> socket_ends();

/// One thread at a time.
class PipeStream {
 public:
  /// Two ends of pipes, or twice the same socket.
  PipeStream(Descriptor reading, Descriptor writing);

  int reading() const { return reading_.get(); }
  int writing() const { return writing_.get(); }
  void put(std::string_view bytes) { output_ += bytes; }
  size_t unsent() const { return output_.size() - sent_; }
  bool has_to_send() const { return unsent() > 0; }
  /// Sends what is accepted now. False when nobody reads any more.
  bool flush();
  /// Adds what has arrived. False at the end.
  bool receive(std::string& bytes);

 private:
  Descriptor reading_, writing_;
  std::string output_;
  size_t sent_ = 0;
};

}  // namespace lockstep::pool
