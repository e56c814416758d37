// One collective over gloo's connections: messages between ranks, waits that end at a stop or at another
// rank's failure, and slices that their owners add up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/no_pipe_signal.h"
#include "lockstep/comm/internal/collective.h"
#include "lockstep/comm/internal/gloo_communicator.h"

namespace lockstep::comm {

constexpr int64_t kMessageBytes = 1024;
constexpr int64_t kFewBytes =
    kMessageBytes - static_cast<int64_t>(sizeof(Announcement));  ///< data that travel with the announcement

/// Messages of one tag between two ranks arrive in the order in which they were sent.
enum class GlooTag { announcing = 0, slicing = 1, giving = 2 };

/// Vectors of all ranks that become one: rank r has pieces[r] of them.
struct Slices {
  std::vector<size_t> pieces;
  std::vector<const std::byte*> own;  ///< this rank's
  int64_t elements = 0;
  int64_t width = 1;            ///< bytes of an element
  std::byte* result = nullptr;  ///< may be the only one of `own`
  /// Adds up `count` elements of all pieces, rank by rank; `result` may be one of them.
  std::function<void(const std::vector<const std::byte*>& inputs, int64_t count, std::byte* result)> combine;
};

/// A rank's connections to the others. One call at a time.
class GlooLink {
 public:
  GlooLink(GlooPlace place, CommunicatorOptions options);

  Share share() const { return {rank_, size_}; }
  const std::string& address() const { return address_; }
  /// Records that this rank has failed, and tells all others.
  void fail(const std::string& why) { control_.fail(why); }
  std::string failure() const { return control_.failure(); }

 private:
  friend class GlooCall;
  void interrupt();
  std::byte* message_of(int64_t rank) const {
    return static_cast<std::byte*>(messages_.data_ptr()) + rank * kMessageBytes;
  }
  std::byte* staging(int64_t bytes);

  const int64_t rank_;
  const int64_t size_;
  const std::string address_;
  const CommunicatorOptions options_;
  std::mutex mutex_;
  c10d::Work* current_ = nullptr;  // this rank waits for it
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> group_;
  at::Tensor messages_;  // a row for each rank
  at::Tensor staging_;
  ControlLine
      // destroyed first: it tells that this rank leaves, or why it failed, while the connections exist
      control_;
};

/// A message that is being sent to a rank or received from one.
struct Message {
  c10::intrusive_ptr<c10d::Work> work;
  int64_t peer;
};

/// One collective of this rank: which ranks it waits for, and what ends the wait.
class GlooCall {
 public:
  GlooCall(GlooLink& link, const WaitOptions& wait);

  /// Announces this rank's call, with its data if there are few; receives the same from all, and compares.
  void synchronize(const Announcement& own, const FlatList* few = nullptr);
  const Announcement& said(int64_t rank) const {
    return *reinterpret_cast<const Announcement*>(link_.message_of(rank));
  }
  const std::byte* few_of(int64_t rank) const { return link_.message_of(rank) + sizeof(Announcement); }

  /// Data that are sent must stay unchanged until finish.
  void send(const std::byte* begin, int64_t bytes, int64_t peer, GlooTag tag);
  Message receive(std::byte* begin, int64_t bytes, int64_t peer, GlooTag tag);
  void wait_for_all(const std::vector<Message>& messages);
  void finish() { wait_for_all(std::exchange(sent_, {})); }

  void exchange(const Slices& slices);
  [[noreturn]] void leave(ErrorCode code, const std::string& why, const std::string& hint = {}) const;

 private:
  struct Interrupt {
    GlooLink& link;
    void operator()() const { link.interrupt(); }
  };
  bool stopped() const;
  void check() const;
  bool wait_for(c10d::Work& work, std::string& why);
  class Segments;
  void add_own_slice(const Slices& slices, const Segments& cut);
  [[noreturn]] void give_up(const std::vector<Message>& messages, int64_t peer, const std::string& why) const;
  [[noreturn]] void time_is_over(const std::vector<Message>& messages, int64_t peer) const;

  const NoPipeSignal no_pipe_signal_;
  GlooLink& link_;
  const Deadline until_;
  uint32_t collective_ = 0;
  std::vector<Message> sent_;
  const std::stop_callback<Interrupt> by_own_, by_call_;
};

}  // namespace lockstep::comm
