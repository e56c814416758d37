// What happened, for all pages: each browser holds one stream, and each page fetches what it shows.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "lockstep/base/json.h"
#include "lockstep/studio/message.h"

namespace lockstep::studio {

/// Any thread.
class EventStream {
 public:
  void publish(const std::string& name, const Json& values);

  /// A reader that begins now, in the format of text/event-stream. One that is too slow is told "reset" and
  /// goes on with the newest event. The stream must outlive it.
  Feed make_feed();

 private:
  struct Piece {
    int64_t number;
    std::string text;
  };
  std::string read(int64_t& next);

  std::mutex mutex_;
  std::deque<Piece> pieces_;
  int64_t next_ = 0;
};

}  // namespace lockstep::studio
