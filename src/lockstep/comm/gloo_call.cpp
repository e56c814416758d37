#include "lockstep/comm/internal/gloo_call.h"

#include <algorithm>
#include <cstring>

#include <ATen/Functions.h>

#include "lockstep/device/failure.h"

namespace lockstep::comm {
namespace {

using Clock = Deadline::Clock;

constexpr int64_t kMostSegmentBytes = 1 << 18;
constexpr int64_t kLeastSegmentBytes = 1 << 16;
// Maximum number of segments of a rank's slice that are being sent to it.
constexpr int64_t kSegmentsAhead = 4;
constexpr int64_t kMostStagingBytes = int64_t{32} << 20;
constexpr std::chrono::milliseconds kVerdict{2000};  // for the control line to tell why a connection broke
constexpr std::chrono::minutes kConnectGloo{5};

at::Tensor bytes_at(const std::byte* begin, int64_t count) {
  return at::from_blob(const_cast<std::byte*>(begin), {count}, at::kByte);
}

}  // namespace

/// How the vectors of Slices are cut, the same on every rank: one slice for each rank, and each slice into
/// segments.
class GlooCall::Segments {
 public:
  Segments(const Slices& slices, int64_t size) : size_(size), elements_(slices.elements) {
    for (const size_t pieces : slices.pieces) pieces_ += static_cast<int64_t>(pieces);
    const int64_t most = kMostStagingBytes / (kSegmentsAhead * std::max<int64_t>(pieces_, 1));
    segment_ = std::clamp(most, kLeastSegmentBytes, kMostSegmentBytes) / slices.width;
    bytes_ = segment_ * slices.width;
  }
  int64_t pieces() const { return pieces_; }
  int64_t bytes() const { return bytes_; }
  /// Number of segments in the largest slice.
  int64_t most() const { return divided_up(part_of(elements_, size_, 0).count(), segment_); }
  /// The elements of a segment; empty after the last one.
  Range part(int64_t rank, int64_t segment) const {
    const Range slice = part_of(elements_, size_, rank);
    const int64_t begin = std::min(slice.begin + segment * segment_, slice.end);
    return {begin, std::min(begin + segment_, slice.end)};
  }

 private:
  int64_t size_;
  int64_t elements_;
  int64_t pieces_ = 0;
  int64_t segment_ = 1;  // elements
  int64_t bytes_ = 0;
};

GlooLink::GlooLink(GlooPlace place, CommunicatorOptions options)
    : rank_(place.members.rank),
      size_(static_cast<int64_t>(place.members.names.size())),
      address_(place.address),
      options_(std::move(options)),
      store_(place.store),
      group_(make_gloo_group(place.store, {rank_, size_}, address_, kConnectGloo)),
      messages_(at::zeros({size_, kMessageBytes}, at::kByte)),
      control_(std::move(place.members), std::move(place.control), [this] { interrupt(); }) {}

void GlooLink::interrupt() {
  const std::lock_guard lock(mutex_);
  if (current_ != nullptr) current_->abort();
}

std::byte* GlooLink::staging(int64_t bytes) {
  if (!staging_.defined() || staging_.numel() < bytes) staging_ = at::empty({bytes}, at::kByte);
  return static_cast<std::byte*>(staging_.data_ptr());
}

GlooCall::GlooCall(GlooLink& link, const WaitOptions& wait)
    : link_(link),
      until_(Deadline::after(wait.timeout.value_or(link.options_.timeout), wait.stop)),
      by_own_(link.options_.stop, Interrupt{link}),
      by_call_(until_.stop, Interrupt{link}) {}

bool GlooCall::stopped() const {
  return link_.options_.stop.stop_requested() || until_.stop.stop_requested();
}

void GlooCall::leave(ErrorCode code, const std::string& why, const std::string& hint) const {
  link_.control_.fail(why);
  throw Error(code, why, hint);
}

void GlooCall::check() const {
  if (const std::string failure = link_.control_.failure(); !failure.empty())
    throw Error(ErrorCode::cancelled, failure);
  if (stopped()) leave(ErrorCode::cancelled, "rank " + std::to_string(link_.rank_) + " was stopped");
}

// False when the work was interrupted or failed; `check` then throws the reason.
bool GlooCall::wait_for(c10d::Work& work, std::string& why) {
  struct Current {
    Current(GlooLink& link, c10d::Work& work) : link(link) { set(&work); }
    ~Current() { set(nullptr); }
    void set(c10d::Work* work) const {
      const std::lock_guard lock(link.mutex_);
      link.current_ = work;
    }
    GlooLink& link;
  };
  const Current current(link_, work);
  check();  // an earlier failure is seen here, a later one aborts the wait
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(until_.time - Clock::now());
  try {
    return work.wait(std::max(rest, std::chrono::milliseconds(0)) + std::chrono::milliseconds(1));
  } catch (...) {
    why = device::error_of(std::current_exception()).message();
    return false;
  }
}

void GlooCall::wait_for_all(const std::vector<Message>& messages) {
  for (const Message& message : messages) {
    std::string why;
    if (!wait_for(*message.work, why)) give_up(messages, message.peer, why);
  }
}

// The control line knows better than a broken connection which rank caused it.
void GlooCall::give_up(const std::vector<Message>& messages, int64_t peer, const std::string& why) const {
  check();
  if (Clock::now() >= until_.time) time_is_over(messages, peer);
  const auto verdict = Clock::now() + kVerdict;
  while (!stopped() && Clock::now() < verdict && !link_.control_.has_left(peer) &&
         link_.control_.failure_within(std::chrono::milliseconds(50)).empty()) {
  }
  check();
  if (link_.control_.has_left(peer)) {
    leave(ErrorCode::invalid_option, gone_ranks({peer}, link_.share(), name_of_collective(collective_)),
          kGoneHint);
  }
  leave(ErrorCode::communication, "the connection of " + link_.control_.name_of(link_.rank_) + " with " +
                                      link_.control_.name_of(peer) + " broke: " + why);
}

// Gloo breaks all connections when one message is late; messages that had arrived remain valid.
void GlooCall::time_is_over(const std::vector<Message>& messages, int64_t peer) const {
  std::vector<int64_t> missing;
  for (const Message& message : messages) {
    bool came = false;
    try {
      came = message.work->isCompleted() ? message.work->isSuccess()
                                         : message.work->wait(std::chrono::milliseconds(1));
    } catch (...) {  // it is one of the ranks to name
    }
    if (!came && std::find(missing.begin(), missing.end(), message.peer) == missing.end())
      missing.push_back(message.peer);
  }
  if (missing.empty()) missing.push_back(peer);
  std::sort(missing.begin(), missing.end());
  check();
  leave(ErrorCode::timeout, late_ranks(missing, link_.size_, name_of_collective(collective_), until_.timeout),
        kLateHint);
}

void GlooCall::send(const std::byte* begin, int64_t bytes, int64_t peer, GlooTag tag) {
  std::vector<at::Tensor> one{bytes_at(begin, bytes)};
  std::string why;
  try {
    return sent_.push_back({link_.group_->send(one, static_cast<int>(peer), static_cast<int>(tag)), peer});
  } catch (...) {
    why = device::error_of(std::current_exception()).message();
  }
  give_up({}, peer, why);
}

Message GlooCall::receive(std::byte* begin, int64_t bytes, int64_t peer, GlooTag tag) {
  std::vector<at::Tensor> one{bytes_at(begin, bytes)};
  std::string why;
  try {
    return {link_.group_->recv(one, static_cast<int>(peer), static_cast<int>(tag)), peer};
  } catch (...) {
    why = device::error_of(std::current_exception()).message();
  }
  give_up({}, peer, why);
}

void GlooCall::synchronize(const Announcement& own, const FlatList* few) {
  check();
  finish();  // this rank's earlier messages have been received, so their memory can be written again
  collective_ = own.collective;
  std::byte* message = link_.message_of(link_.rank_);
  std::memcpy(message, &own, sizeof own);
  if (few != nullptr) few->copy_out(0, kFewBytes, message + sizeof own);
  std::vector<Message> coming;
  for (int64_t step = 1; step < link_.size_; ++step) {
    const int64_t peer = (link_.rank_ + step) % link_.size_;
    coming.push_back(receive(link_.message_of(peer), kMessageBytes, peer, GlooTag::announcing));
    send(message, kMessageBytes, peer, GlooTag::announcing);
  }
  wait_for_all(coming);
  const Misfit misfit =
      misfit_of(link_.size_, [&](int64_t rank) -> const Announcement& { return said(rank); });
  if (!misfit.why.empty()) leave(ErrorCode::invalid_option, misfit.why, misfit.hint);
}

// The slices are cut into segments, so that a rank adds one segment while the next is being sent. This also
// works in place: a segment of the result comes from the rank that has already received this rank's segment.
void GlooCall::exchange(const Slices& slices) {
  const Segments cut(slices, link_.size_);
  std::vector<Message> results;
  for (int64_t segment = 0; segment < cut.most(); ++segment) {
    for (int64_t step = 1; step < link_.size_; ++step) {
      const int64_t peer = (link_.rank_ + step) % link_.size_;
      const Range part = cut.part(peer, segment);
      if (part.count() == 0) continue;
      for (const std::byte* piece : slices.own)
        send(piece + part.begin * slices.width, part.count() * slices.width, peer, GlooTag::slicing);
      results.push_back(receive(slices.result + part.begin * slices.width, part.count() * slices.width, peer,
                                GlooTag::giving));
    }
  }
  add_own_slice(slices, cut);
  wait_for_all(results);
  finish();
}

void GlooCall::add_own_slice(const Slices& slices, const Segments& cut) {
  std::byte* staging = link_.staging(kSegmentsAhead * cut.pieces() * cut.bytes());
  const auto place_of = [&](int64_t segment, int64_t piece) {
    return staging + ((segment % kSegmentsAhead) * cut.pieces() + piece) * cut.bytes();
  };
  std::vector<std::vector<Message>> coming;
  const auto expect = [&](int64_t segment) {
    const Range part = cut.part(link_.rank_, segment);
    std::vector<Message>& messages = coming.emplace_back();
    int64_t place = 0;
    for (int64_t rank = 0; rank < link_.size_; ++rank) {
      const auto pieces = static_cast<int64_t>(slices.pieces[static_cast<size_t>(rank)]);
      for (int64_t piece = 0; rank != link_.rank_ && part.count() > 0 && piece < pieces; ++piece) {
        messages.push_back(
            receive(place_of(segment, place + piece), part.count() * slices.width, rank, GlooTag::slicing));
      }
      place += pieces;
    }
  };
  for (int64_t segment = 0; segment < kSegmentsAhead; ++segment) expect(segment);
  for (int64_t segment = 0; cut.part(link_.rank_, segment).count() > 0; ++segment) {
    const Range part = cut.part(link_.rank_, segment);
    wait_for_all(coming[static_cast<size_t>(segment)]);
    std::vector<const std::byte*> inputs;
    for (int64_t rank = 0; rank < link_.size_; ++rank) {
      for (size_t piece = 0; piece < slices.pieces[static_cast<size_t>(rank)]; ++piece) {
        inputs.push_back(rank == link_.rank_ ? slices.own[piece] + part.begin * slices.width
                                             : place_of(segment, static_cast<int64_t>(inputs.size())));
      }
    }
    std::byte* result = slices.result + part.begin * slices.width;
    slices.combine(inputs, part.count(), result);
    for (int64_t step = 1; step < link_.size_; ++step)
      send(result, part.count() * slices.width, (link_.rank_ + step) % link_.size_, GlooTag::giving);
    expect(segment + kSegmentsAhead);
  }
}

}  // namespace lockstep::comm
