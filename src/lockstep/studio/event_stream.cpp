#include "lockstep/studio/event_stream.h"

namespace lockstep::studio {
namespace {

constexpr size_t kMostPieces = 256;

}  // namespace

void EventStream::publish(const std::string& name, const Json& values) {
  const std::string text =
      "event: " + name + "\ndata: " + values.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n\n";
  const std::lock_guard lock(mutex_);
  pieces_.push_back({next_++, text});
  if (pieces_.size() > kMostPieces) pieces_.pop_front();
}

Feed EventStream::make_feed() {
  const std::lock_guard lock(mutex_);
  return [this, next = next_]() mutable { return read(next); };
}

std::string EventStream::read(int64_t& next) {
  const std::lock_guard lock(mutex_);
  std::string text;
  if (!pieces_.empty() && pieces_.front().number > next) text = "event: reset\ndata: {}\n\n";
  for (const Piece& piece : pieces_) {
    if (piece.number >= next) text += piece.text;
  }
  next = next_;
  return text;
}

}  // namespace lockstep::studio
