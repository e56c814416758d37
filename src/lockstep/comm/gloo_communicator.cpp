// The communicator of ranks that send each other messages. A call begins with one message of fixed size from each rank to each: what it is about
// to do, and its data where they are few. Ranks that fit together then send each other slices: each adds up its own slice of what all have, in
// the order in which threads and processes add, and gives it to the others. gloo's own collectives add in another order and cannot be interrupted.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>

#include <ATen/Functions.h>

#include "lockstep/comm/internal/collective.h"
#include "lockstep/comm/internal/gloo_communicator.h"
#include "lockstep/comm/internal/group_reduce.h"
#include "lockstep/device/failure.h"

namespace lockstep::comm {
namespace {

using Clock = Deadline::Clock;
using Work = c10::intrusive_ptr<c10d::Work>;

constexpr int64_t kMessageBytes = 1024;
constexpr int64_t kFewBytes = kMessageBytes - static_cast<int64_t>(sizeof(Announcement));  // data that travel with the announcement
constexpr int64_t kMostSegmentBytes = 1 << 18;
constexpr int64_t kLeastSegmentBytes = 1 << 16;
constexpr int64_t kSegmentsAhead = 4;                   // of a rank's slice that may be on their way to it
constexpr int64_t kMostStagingBytes = int64_t{32} << 20;
constexpr int64_t kBlock = 4096;                        // elements that finish_block takes at once
constexpr std::chrono::milliseconds kVerdict{2000};      // for the control line to say why a connection broke
constexpr std::chrono::minutes kConnect{5};

// Messages of one tag between two ranks arrive in the order in which they were sent.
enum Tag : int { announcing = 0, slicing = 1, giving = 2 };

at::Tensor bytes_at(const std::byte* begin, int64_t count) { return at::from_blob(const_cast<std::byte*>(begin), {count}, at::kByte); }

/// While it lives, a write of this thread, or of one that it starts, to a rank that is gone is an error and not the end of the process: gloo does
/// not say so to the kernel itself.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  ~NoPipeSignal() {
    const timespec at_once{};
    while (!was_pending_ && ::sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

/// Vectors of all ranks that become one: rank r has pieces[r] of them.
struct Slices {
  std::vector<size_t> pieces;
  std::vector<const std::byte*> own;  ///< this rank's
  int64_t elements = 0;
  int64_t width = 1;                  ///< bytes of an element
  std::byte* result = nullptr;        ///< may be the only one of `own`
  /// Adds up `count` elements of all pieces, rank by rank; `result` may be one of them.
  std::function<void(const std::vector<const std::byte*>& inputs, int64_t count, std::byte* result)> combine;
};

/// How the vectors of Slices are cut, the same on every rank: a slice for each rank, and each slice into segments.
class Segments {
 public:
  Segments(const Slices& slices, int64_t size) : size_(size), elements_(slices.elements) {
    for (const size_t pieces : slices.pieces) pieces_ += static_cast<int64_t>(pieces);
    const int64_t most = kMostStagingBytes / (kSegmentsAhead * std::max<int64_t>(pieces_, 1));
    segment_ = std::clamp(most, kLeastSegmentBytes, kMostSegmentBytes) / slices.width;
    bytes_ = segment_ * slices.width;
  }
  int64_t pieces() const { return pieces_; }
  int64_t bytes() const { return bytes_; }
  /// In the largest slice.
  int64_t most() const { return (part_of(elements_, size_, 0).count() + segment_ - 1) / segment_; }
  /// The elements of a segment; none behind the last one.
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

/// A list as one contiguous row: where it lies, or copied where it is several tensors.
class Row {
 public:
  Row(const FlatList& list, int64_t width) : list_(list), bytes_(list.elements() * width), begin_(list.only()) {
    if (begin_ != nullptr) return;
    copy_ = at::empty({bytes_}, at::kByte);
    begin_ = static_cast<std::byte*>(copy_.data_ptr());
    list_.copy_out(0, bytes_, begin_);
  }
  std::byte* begin() const { return begin_; }
  void write_back() const {
    if (copy_.defined()) list_.copy_in(0, bytes_, begin_);
  }

 private:
  const FlatList& list_;
  int64_t bytes_;
  at::Tensor copy_;
  std::byte* begin_;
};

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(GlooPlace place, CommunicatorOptions options);

  Share share() const override { return {rank_, size_}; }
  std::string way() const override { return "gloo at " + address_; }
  void barrier(const WaitOptions& wait) override;
  void all_reduce(const std::vector<at::Tensor>& tensors, Reduction reduction, const WaitOptions& wait) override;
  void broadcast(const std::vector<at::Tensor>& tensors, int64_t root, const WaitOptions& wait) override;
  std::vector<Node> exchange_nodes(const std::vector<Node>& nodes, int64_t shard_count, const WaitOptions& wait) override;
  void abort(const Error& reason) override { control_.fail("rank " + std::to_string(rank_) + " failed: " + reason.message()); }

 protected:
  std::vector<at::Tensor> collect(const at::Tensor& tensor, int64_t root, const WaitOptions& wait) override;

 private:
  class Call;
  void interrupt();
  std::byte* message_of(int64_t rank) const { return static_cast<std::byte*>(messages_.data_ptr()) + rank * kMessageBytes; }
  std::byte* staging(int64_t bytes);
  void reduce_part(Call& call, at::ScalarType type, const FlatList& list, Reduction reduction);
  void broadcast_part(Call& call, at::ScalarType type, const FlatList& list, int64_t root);
  template <class T>
  void finish_tree(Call& call, const std::vector<Node>& nodes, const TreePlan& plan);

  const int64_t rank_;
  const int64_t size_;
  const std::string address_;
  const CommunicatorOptions options_;
  std::mutex mutex_;
  c10d::Work* current_ = nullptr;  // that this rank waits for
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Backend> group_;
  at::Tensor messages_;            // a row for each rank
  at::Tensor staging_;
  at::Tensor tree_sum_;            // of the last tree, used again when nobody else has it
  ControlLine control_;            // ends first: it says that this rank leaves, or why it failed, while the connections stand
};

/// A message on its way, to or from a rank.
struct Message {
  Work work;
  int64_t peer;
};

/// One collective of this rank: whom it waits for, and what ends that.
class GlooCommunicator::Call {
 public:
  Call(GlooCommunicator& comm, const WaitOptions& wait)
      : comm_(comm), until_(Deadline::after(wait.timeout.value_or(comm.options_.timeout), wait.stop)), by_own_(comm.options_.stop, Interrupt{comm}), by_call_(until_.stop, Interrupt{comm}) {}

  /// Says what this rank does, with its data where they are few; hears the same of all, and compares.
  void meet(const Announcement& own, const FlatList* few = nullptr);
  const Announcement& said(int64_t rank) const { return *reinterpret_cast<const Announcement*>(comm_.message_of(rank)); }
  const std::byte* few_of(int64_t rank) const { return comm_.message_of(rank) + sizeof(Announcement); }

  /// What is sent stays where it is until finish.
  void send(const std::byte* begin, int64_t bytes, int64_t peer, Tag tag);
  Message receive(std::byte* begin, int64_t bytes, int64_t peer, Tag tag);
  void wait_for_all(const std::vector<Message>& messages);
  void finish() { wait_for_all(std::exchange(sent_, {})); }

  void exchange(const Slices& slices);
  [[noreturn]] void leave(ErrorCode code, const std::string& why, const std::string& hint = {}) const;

 private:
  struct Interrupt {
    GlooCommunicator& comm;
    void operator()() const { comm.interrupt(); }
  };
  bool stopped() const { return comm_.options_.stop.stop_requested() || until_.stop.stop_requested(); }
  void check() const;
  bool wait_for(c10d::Work& work, std::string& why);
  void add_own_slice(const Slices& slices, const Segments& cut);
  [[noreturn]] void give_up(const std::vector<Message>& messages, int64_t peer, const std::string& why) const;
  [[noreturn]] void time_is_over(const std::vector<Message>& messages, int64_t peer) const;

  const NoPipeSignal no_pipe_signal_;
  GlooCommunicator& comm_;
  const Deadline until_;
  uint32_t collective_ = 0;
  std::vector<Message> sent_;
  const std::stop_callback<Interrupt> by_own_, by_call_;
};

GlooCommunicator::GlooCommunicator(GlooPlace place, CommunicatorOptions options)
    : rank_(place.members.rank),
      size_(static_cast<int64_t>(place.members.names.size())),
      address_(place.address),
      options_(std::move(options)),
      store_(place.store),
      group_(make_gloo_group(place.store, {rank_, size_}, address_, kConnect)),
      messages_(at::zeros({size_, kMessageBytes}, at::kByte)),
      control_(std::move(place.members), std::move(place.control), [this] { interrupt(); }) {}

void GlooCommunicator::interrupt() {
  const std::lock_guard lock(mutex_);
  if (current_ != nullptr) current_->abort();
}

std::byte* GlooCommunicator::staging(int64_t bytes) {
  if (!staging_.defined() || staging_.numel() < bytes) staging_ = at::empty({bytes}, at::kByte);
  return static_cast<std::byte*>(staging_.data_ptr());
}

void GlooCommunicator::Call::leave(ErrorCode code, const std::string& why, const std::string& hint) const {
  comm_.control_.fail(why);
  throw Error(code, why, hint);
}

void GlooCommunicator::Call::check() const {
  if (const std::string failure = comm_.control_.failure(); !failure.empty()) throw Error(ErrorCode::cancelled, failure);
  if (stopped()) leave(ErrorCode::cancelled, "rank " + std::to_string(comm_.rank_) + " was stopped");
}

// False when the work was interrupted or failed, and then why.
bool GlooCommunicator::Call::wait_for(c10d::Work& work, std::string& why) {
  struct Current {
    explicit Current(GlooCommunicator& comm, c10d::Work& work) : comm(comm) { set(&work); }
    ~Current() { set(nullptr); }
    void set(c10d::Work* work) const {
      const std::lock_guard lock(comm.mutex_);
      comm.current_ = work;
    }
    GlooCommunicator& comm;
  };
  const Current current(comm_, work);
  check();  // what came before is seen here, what comes later aborts the wait
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(until_.time - Clock::now());
  try {
    return work.wait(std::max(rest, std::chrono::milliseconds(0)) + std::chrono::milliseconds(1));
  } catch (...) {
    why = device::error_of(std::current_exception()).message();
    return false;
  }
}

void GlooCommunicator::Call::wait_for_all(const std::vector<Message>& messages) {
  for (const Message& message : messages) {
    std::string why;
    if (!wait_for(*message.work, why)) give_up(messages, message.peer, why);
  }
}

// The control line knows better than a broken connection whose fault it is.
void GlooCommunicator::Call::give_up(const std::vector<Message>& messages, int64_t peer, const std::string& why) const {
  check();
  if (Clock::now() >= until_.time) time_is_over(messages, peer);
  const auto verdict = Clock::now() + kVerdict;
  while (!stopped() && Clock::now() < (comm_.control_.has_left(peer) ? until_.time : verdict) && comm_.control_.failure_within(std::chrono::milliseconds(50)).empty()) {
  }
  check();
  if (comm_.control_.has_left(peer)) time_is_over(messages, peer);
  leave(ErrorCode::communication, "the connection of " + comm_.control_.name_of(comm_.rank_) + " with " + comm_.control_.name_of(peer) + " broke: " + why);
}

// Gloo breaks all connections when one message is late; what had come before has come.
void GlooCommunicator::Call::time_is_over(const std::vector<Message>& messages, int64_t peer) const {
  std::vector<int64_t> missing;
  for (const Message& message : messages) {
    bool came = false;
    try {
      came = message.work->isCompleted() ? message.work->isSuccess() : message.work->wait(std::chrono::milliseconds(1));
    } catch (...) {  // it is one to name
    }
    if (!came && std::find(missing.begin(), missing.end(), message.peer) == missing.end()) missing.push_back(message.peer);
  }
  if (missing.empty()) missing.push_back(peer);
  std::sort(missing.begin(), missing.end());
  check();
  leave(ErrorCode::timeout, late_ranks(missing, comm_.size_, name_of_collective(collective_), until_.timeout), kLateHint);
}

void GlooCommunicator::Call::send(const std::byte* begin, int64_t bytes, int64_t peer, Tag tag) {
  std::vector<at::Tensor> one{bytes_at(begin, bytes)};
  std::string why;
  try {
    return sent_.push_back({comm_.group_->send(one, static_cast<int>(peer), tag), peer});
  } catch (...) {
    why = device::error_of(std::current_exception()).message();
  }
  give_up({}, peer, why);
}

Message GlooCommunicator::Call::receive(std::byte* begin, int64_t bytes, int64_t peer, Tag tag) {
  std::vector<at::Tensor> one{bytes_at(begin, bytes)};
  std::string why;
  try {
    return {comm_.group_->recv(one, static_cast<int>(peer), tag), peer};
  } catch (...) {
    why = device::error_of(std::current_exception()).message();
  }
  give_up({}, peer, why);
}

void GlooCommunicator::Call::meet(const Announcement& own, const FlatList* few) {
  check();
  finish();  // what this rank said before is heard, so its message can be written again
  collective_ = own.collective;
  std::byte* message = comm_.message_of(comm_.rank_);
  std::memcpy(message, &own, sizeof own);
  if (few != nullptr) few->copy_out(0, kFewBytes, message + sizeof own);
  std::vector<Message> coming;
  for (int64_t step = 1; step < comm_.size_; ++step) {
    const int64_t peer = (comm_.rank_ + step) % comm_.size_;
    coming.push_back(receive(comm_.message_of(peer), kMessageBytes, peer, announcing));
    send(message, kMessageBytes, peer, announcing);
  }
  wait_for_all(coming);
  const Misfit misfit = misfit_of(comm_.size_, [&](int64_t rank) -> const Announcement& { return said(rank); });
  if (!misfit.why.empty()) leave(ErrorCode::invalid_option, misfit.why, misfit.hint);
}

// The slices are cut into segments, so that a rank adds one up while the next is on its way. In place, too: a segment of the result comes from
// the rank to which this one's went before.
void GlooCommunicator::Call::exchange(const Slices& slices) {
  const Segments cut(slices, comm_.size_);
  std::vector<Message> results;
  for (int64_t segment = 0; segment < cut.most(); ++segment) {
    for (int64_t step = 1; step < comm_.size_; ++step) {
      const int64_t peer = (comm_.rank_ + step) % comm_.size_;
      const Range part = cut.part(peer, segment);
      if (part.count() == 0) continue;
      for (const std::byte* piece : slices.own) send(piece + part.begin * slices.width, part.count() * slices.width, peer, slicing);
      results.push_back(receive(slices.result + part.begin * slices.width, part.count() * slices.width, peer, giving));
    }
  }
  add_own_slice(slices, cut);
  wait_for_all(results);
  finish();
}

void GlooCommunicator::Call::add_own_slice(const Slices& slices, const Segments& cut) {
  std::byte* staging = comm_.staging(kSegmentsAhead * cut.pieces() * cut.bytes());
  const auto place_of = [&](int64_t segment, int64_t piece) { return staging + ((segment % kSegmentsAhead) * cut.pieces() + piece) * cut.bytes(); };
  std::vector<std::vector<Message>> coming;
  const auto expect = [&](int64_t segment) {
    const Range part = cut.part(comm_.rank_, segment);
    std::vector<Message>& messages = coming.emplace_back();
    int64_t place = 0;
    for (int64_t rank = 0; rank < comm_.size_; ++rank) {
      const auto pieces = static_cast<int64_t>(slices.pieces[static_cast<size_t>(rank)]);
      for (int64_t piece = 0; rank != comm_.rank_ && part.count() > 0 && piece < pieces; ++piece) {
        messages.push_back(receive(place_of(segment, place + piece), part.count() * slices.width, rank, slicing));
      }
      place += pieces;
    }
  };
  for (int64_t segment = 0; segment < kSegmentsAhead; ++segment) expect(segment);
  for (int64_t segment = 0; cut.part(comm_.rank_, segment).count() > 0; ++segment) {
    const Range part = cut.part(comm_.rank_, segment);
    wait_for_all(coming[static_cast<size_t>(segment)]);
    std::vector<const std::byte*> inputs;
    for (int64_t rank = 0; rank < comm_.size_; ++rank) {
      for (size_t piece = 0; piece < slices.pieces[static_cast<size_t>(rank)]; ++piece) {
        inputs.push_back(rank == comm_.rank_ ? slices.own[piece] + part.begin * slices.width : place_of(segment, static_cast<int64_t>(inputs.size())));
      }
    }
    std::byte* result = slices.result + part.begin * slices.width;
    slices.combine(inputs, part.count(), result);
    for (int64_t step = 1; step < comm_.size_; ++step) send(result, part.count() * slices.width, (comm_.rank_ + step) % comm_.size_, giving);
    expect(segment + kSegmentsAhead);
  }
}

void GlooCommunicator::barrier(const WaitOptions& wait) {
  Call call(*this, wait);
  call.meet({.collective = static_cast<uint32_t>(Collective::barrier)});
  call.finish();
}

void GlooCommunicator::all_reduce(const std::vector<at::Tensor>& tensors, Reduction reduction, const WaitOptions& wait) {
  Call call(*this, wait);
  for (const auto& [type, part] : by_type(tensors)) {
    check_reducible(type, reduction);
    const FlatList list(part);
    reduce_part(call, type, list, reduction);
    list.write_back();
  }
  call.finish();
}

void GlooCommunicator::reduce_part(Call& call, at::ScalarType type, const FlatList& list, Reduction reduction) {
  const auto width = static_cast<int64_t>(c10::elementSize(type));
  const bool few = list.elements() * width <= kFewBytes;
  call.meet({.collective = static_cast<uint32_t>(Collective::all_reduce),
             .type = static_cast<int32_t>(type),
             .reduction = static_cast<int32_t>(reduction),
             .elements = list.elements()},
            few ? &list : nullptr);
  if (few) {
    std::vector<const std::byte*> inputs;
    for (int64_t rank = 0; rank < size_; ++rank) inputs.push_back(call.few_of(rank));
    alignas(64) std::array<std::byte, kFewBytes> result;
    reduce_elements(type, reduction, inputs, result.data(), list.elements());
    return list.copy_in(0, kFewBytes, result.data());
  }
  const Row row(list, width);
  call.exchange({.pieces = std::vector<size_t>(static_cast<size_t>(size_), 1),
                 .own = {row.begin()},
                 .elements = list.elements(),
                 .width = width,
                 .result = row.begin(),
                 .combine = [&](const std::vector<const std::byte*>& inputs, int64_t count, std::byte* result) { reduce_elements(type, reduction, inputs, result, count); }});
  row.write_back();
}

void GlooCommunicator::broadcast(const std::vector<at::Tensor>& tensors, int64_t root, const WaitOptions& wait) {
  check_root(root, size_);
  Call call(*this, wait);
  for (const auto& [type, part] : by_type(tensors)) {
    const FlatList list(part);
    broadcast_part(call, type, list, root);
    if (rank_ != root) list.write_back();
  }
  call.finish();
}

void GlooCommunicator::broadcast_part(Call& call, at::ScalarType type, const FlatList& list, int64_t root) {
  const auto width = static_cast<int64_t>(c10::elementSize(type));
  const int64_t bytes = list.elements() * width;
  const bool few = bytes <= kFewBytes;
  call.meet({.collective = static_cast<uint32_t>(Collective::broadcast), .type = static_cast<int32_t>(type), .root = static_cast<int32_t>(root), .elements = list.elements()},
            few && rank_ == root ? &list : nullptr);
  if (few && rank_ != root) list.copy_in(0, bytes, call.few_of(root));
  if (few) return;
  const Row row(list, width);
  for (int64_t peer = 0; rank_ == root && peer < size_; ++peer) {
    if (peer != root) call.send(row.begin(), bytes, peer, giving);
  }
  if (rank_ != root) call.wait_for_all({call.receive(row.begin(), bytes, root, giving)});
  call.finish();
  if (rank_ != root) row.write_back();
}

std::vector<at::Tensor> GlooCommunicator::collect(const at::Tensor& tensor, int64_t root, const WaitOptions& wait) {
  if (root != kEveryRank) check_root(root, size_);
  const FlatList list({tensor});
  const auto width = static_cast<int64_t>(tensor.element_size());
  const Row row(list, width);
  const Announcement announcement = announcement_of(tensor, root);
  Call call(*this, wait);
  call.meet(announcement, announcement.elements * width <= kFewBytes ? &list : nullptr);

  std::vector<at::Tensor> parts;
  std::vector<Message> coming;
  for (int64_t rank = 0; rank < size_; ++rank) {
    const int64_t bytes = call.said(rank).elements * width;
    const bool few = bytes <= kFewBytes;
    if (!few && rank == rank_) {
      for (int64_t peer = 0; peer < size_; ++peer) {
        if (peer != rank_ && (root == kEveryRank || root == peer)) call.send(row.begin(), bytes, peer, giving);
      }
    }
    if (root != kEveryRank && root != rank_) continue;
    auto* place = static_cast<std::byte*>(parts.emplace_back(room_for(call.said(rank))).data_ptr());
    if (few || rank == rank_) {
      std::copy_n(rank == rank_ ? row.begin() : call.few_of(rank), bytes, place);
    } else {
      coming.push_back(call.receive(place, bytes, rank, giving));
    }
  }
  call.wait_for_all(coming);
  call.finish();
  for (at::Tensor& part : parts) part = part.to(tensor.device());
  return parts;
}

std::vector<Node> GlooCommunicator::exchange_nodes(const std::vector<Node>& nodes, int64_t shard_count, const WaitOptions& wait) {
  Call call(*this, wait);
  call.meet(announcement_of(nodes, shard_count));
  std::vector<Announcement> said;
  for (int64_t rank = 0; rank < size_; ++rank) said.push_back(call.said(rank));
  if (const std::string why = misplaced_shard(said, shard_count); !why.empty()) call.leave(ErrorCode::invalid_option, why);
  const TreePlan plan(said, shard_count);
  if (!tree_sum_.defined() || tree_sum_.use_count() > 1 || tree_sum_.numel() != plan.elements || tree_sum_.scalar_type() != plan.type) {
    tree_sum_ = at::empty({plan.elements}, at::TensorOptions().dtype(plan.type));
  }
  std::vector<Node> host;
  for (const Node& node : nodes) host.push_back({node.shards, node.sum.detach().to(at::kCPU).contiguous()});
  plan.type == at::kFloat ? finish_tree<float>(call, host, plan) : finish_tree<double>(call, host, plan);
  return {{{0, shard_count}, nodes.empty() ? tree_sum_ : tree_sum_.to(nodes.front().sum.device())}};
}

// The sum over `range` out of nodes, at `result`.
template <class T>
void add_up(const std::vector<NodeElements<T>>& nodes, Range range, int64_t count, T* result) {
  std::vector<T> scratch(static_cast<size_t>(scratch_blocks(range.count()) * kBlock));
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t size = std::min(kBlock, count - at);
    std::copy_n(finish_block(nodes, range, at, size, scratch.data()), size, result + at);
  }
}

template <class T>
void GlooCommunicator::finish_tree(Call& call, const std::vector<Node>& nodes, const TreePlan& plan) {
  std::vector<NodeElements<T>> given;
  for (const Node& node : nodes) given.push_back({node.shards, node.sum.const_data_ptr<T>()});
  std::vector<at::Tensor> made;  // of nodes that several threads have parts of
  std::vector<const std::byte*> own;
  for (const Range range : plan.nodes[static_cast<size_t>(rank_)]) {
    const auto found = std::find_if(given.begin(), given.end(), [&](const NodeElements<T>& node) { return node.shards == range; });
    if (found == given.end()) add_up(given, range, plan.elements, made.emplace_back(at::empty_like(tree_sum_)).template mutable_data_ptr<T>());
    own.push_back(reinterpret_cast<const std::byte*>(found == given.end() ? made.back().template const_data_ptr<T>() : found->elements));
  }
  std::vector<Range> ranges;  // of all pieces, rank by rank
  std::vector<size_t> pieces;
  for (const std::vector<Range>& of_rank : plan.nodes) {
    pieces.push_back(of_rank.size());
    ranges.insert(ranges.end(), of_rank.begin(), of_rank.end());
  }
  call.exchange({.pieces = pieces,
                 .own = own,
                 .elements = plan.elements,
                 .width = sizeof(T),
                 .result = reinterpret_cast<std::byte*>(tree_sum_.template mutable_data_ptr<T>()),
                 .combine = [&](const std::vector<const std::byte*>& inputs, int64_t count, std::byte* result) {
                   std::vector<NodeElements<T>> all;
                   for (size_t piece = 0; piece < inputs.size(); ++piece) all.push_back({ranges[piece], reinterpret_cast<const T*>(inputs[piece])});
                   add_up(all, {0, plan.shard_count}, count, reinterpret_cast<T*>(result));
                 }});
}

}  // namespace

std::unique_ptr<Communicator> make_gloo_communicator(GlooPlace place, CommunicatorOptions options) {
  const NoPipeSignal no_pipe_signal;
  return std::make_unique<GlooCommunicator>(std::move(place), std::move(options));
}

}  // namespace lockstep::comm
