// The communicator of ranks that share memory. A collective goes through it in chunks: each rank copies a
// chunk into its buffer; after a barrier, the ranks read each other's buffers. Every rank has two buffers,
// used in turn. A rank that writes into a buffer again has passed the barrier of the other buffer, and all
// ranks came to that barrier after they had read the first buffer.
#include <algorithm>
#include <functional>

#include <ATen/Functions.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/internal/collective.h"
#include "lockstep/comm/internal/group_layout.h"
#include "lockstep/comm/internal/group_reduce.h"
#include "lockstep/comm/internal/sum_buffer.h"
#include "lockstep/comm/internal/spin.h"

namespace lockstep::comm {
namespace {

using Clock = Deadline::Clock;

constexpr int64_t kSliceMilliseconds =
    50;  // a stop or a timeout between a look and the sleep is seen after this time

class SharedCommunicator : public Communicator {
 public:
  SharedCommunicator(std::shared_ptr<GroupMemory> memory, int64_t rank, CommunicatorOptions options)
      : memory_(std::move(memory)), rank_(rank), size_(memory_->size()), options_(std::move(options)) {}
  /// The others see that this rank will not come to any call.
  ~SharedCommunicator() override {
    memory_->slot(rank_).left.store(1, std::memory_order_release);
    futex_wake_all(memory_->header().word);
  }
  SharedCommunicator(const SharedCommunicator&) = delete;
  SharedCommunicator& operator=(const SharedCommunicator&) = delete;

  Share share() const override { return {rank_, size_}; }
  std::string way() const override { return "shared memory"; }
  void barrier(const WaitOptions& wait) override {
    synchronize({.collective = static_cast<uint32_t>(Collective::barrier)}, deadline(wait));
  }
  void all_reduce(const std::vector<at::Tensor>& tensors, Reduction reduction,
                  const WaitOptions& wait) override;
  void broadcast(const std::vector<at::Tensor>& tensors, int64_t root, const WaitOptions& wait) override;
  std::vector<Node> exchange_nodes(const std::vector<Node>& nodes, int64_t shard_count,
                                   const WaitOptions& wait) override;
  void abort(const Error& reason) override {
    memory_->fail("rank " + std::to_string(rank_) + " failed: " + reason.message());
  }
  std::string failure() const override { return memory_->failure(); }

 protected:
  std::vector<at::Tensor> collect(const at::Tensor& tensor, int64_t root, const WaitOptions& wait) override;

 private:
  Deadline deadline(const WaitOptions& wait) const {
    return Deadline::after(wait.timeout.value_or(options_.timeout), wait.stop);
  }

  void reduce_part(at::ScalarType type, const FlatList& list, Reduction reduction, const Deadline& until);
  void broadcast_part(at::ScalarType type, const FlatList& list, int64_t root, const Deadline& until);
  TreePlan meet_for_tree(const std::vector<Node>& nodes, int64_t shard_count, const Deadline& until);
  template <class T>
  void finish_tree(const std::vector<Node>& nodes, const TreePlan& plan, const at::Tensor& sum,
                   const Deadline& until);

  /// Announces this rank's call, waits for all, compares. Afterwards all ranks' chunks are in the half half_.
  void synchronize(const Announcement& announcement, const Deadline& until);
  void cross(const char* what, const Deadline& until) const;
  void compare() const;
  void wait_for_all(uint32_t before, const char* what, const Deadline& until) const;
  bool stopped(const Deadline& until) const {
    return options_.stop.stop_requested() || until.stop.stop_requested();
  }
  /// The ranks of these that have not come to the barrier at which this rank waits.
  std::vector<int64_t> missing_ranks(bool (*among)(const RankSlot&)) const;
  [[noreturn]] void time_is_over(const char* what, const Deadline& until) const;
  [[noreturn]] void leave(ErrorCode code, const std::string& why, const std::string& hint = {}) const;
  [[noreturn]] void stop() const {
    leave(ErrorCode::cancelled, "rank " + std::to_string(rank_) + " was stopped");
  }
  [[noreturn]] void throw_broken() const { throw Error(ErrorCode::cancelled, memory_->failure()); }

  /// The half that the next meeting uses.
  std::byte* own_next() const { return memory_->buffer(rank_, 1 - half_); }

  std::shared_ptr<GroupMemory> memory_;
  int64_t rank_;
  int64_t size_;
  CommunicatorOptions options_;
  int64_t half_ = 0;
  at::Tensor tree_sum_;  // of the last tree, reused if nothing else holds it
};

void SharedCommunicator::leave(ErrorCode code, const std::string& why, const std::string& hint) const {
  memory_->fail(why);
  throw Error(code, why, hint);
}

std::vector<int64_t> SharedCommunicator::missing_ranks(bool (*among)(const RankSlot&)) const {
  const uint64_t mine = memory_->slot(rank_).arrivals.load(std::memory_order_relaxed);
  std::vector<int64_t> missing;
  for (int64_t rank = 0; rank < size_; ++rank) {
    const RankSlot& slot = memory_->slot(rank);
    if (among(slot) && slot.arrivals.load(std::memory_order_relaxed) < mine) missing.push_back(rank);
  }
  return missing;
}

void SharedCommunicator::time_is_over(const char* what, const Deadline& until) const {
  leave(ErrorCode::timeout,
        late_ranks(missing_ranks([](const RankSlot&) { return true; }), size_, what, until.timeout),
        kLateHint);
}

void SharedCommunicator::wait_for_all(uint32_t before, const char* what, const Deadline& until) const {
  const std::atomic<uint32_t>& word = memory_->header().word;
  const auto changed = [&] { return word.load(std::memory_order_acquire) != before; };
  for (const auto spin = Clock::now() + kSpin; !changed() && Clock::now() < spin;) pause_cpu();
  if (!changed()) {
    const std::stop_callback wake_by_own(options_.stop, [&] { futex_wake_all(word); });
    const std::stop_callback wake(until.stop, [&] { futex_wake_all(word); });
    while (!changed()) {
      if (stopped(until)) stop();
      const std::vector<int64_t> gone =
          missing_ranks([](const RankSlot& slot) { return slot.left.load(std::memory_order_acquire) != 0; });
      if (changed()) break;  // a rank that fails breaks the group before it leaves
      if (!gone.empty()) leave(ErrorCode::invalid_option, gone_ranks(gone, share(), what), kGoneHint);
      if (Clock::now() >= until.time) time_is_over(what, until);
      futex_wait(word, before, kSliceMilliseconds);
    }
  }
  // A barrier that all ranks reached counts, even if the group was broken right after it.
  if ((word.load(std::memory_order_acquire) | kBroken) == (before | kBroken)) throw_broken();
}

void SharedCommunicator::cross(const char* what, const Deadline& until) const {
  GroupHeader& group = memory_->header();
  const uint32_t before = group.word.load(std::memory_order_acquire);
  if ((before & kBroken) != 0) throw_broken();
  if (stopped(until)) stop();
  memory_->slot(rank_).arrivals.fetch_add(1, std::memory_order_relaxed);
  if (group.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < static_cast<uint32_t>(size_))
    return wait_for_all(before, what, until);
  group.arrived.store(0, std::memory_order_relaxed);
  group.word.fetch_add(kOneBarrier, std::memory_order_acq_rel);
  futex_wake_all(group.word);
}

void SharedCommunicator::synchronize(const Announcement& announcement, const Deadline& until) {
  const int64_t next = 1 - half_;
  memory_->slot(rank_).announcements[static_cast<size_t>(next)] = announcement;
  cross(name_of_collective(announcement.collective), until);
  half_ = next;
  compare();
}

void SharedCommunicator::compare() const {
  const Misfit misfit = misfit_of(size_, [&](int64_t rank) -> const Announcement& {
    return memory_->slot(rank).announcements[static_cast<size_t>(half_)];
  });
  if (!misfit.why.empty()) leave(ErrorCode::invalid_option, misfit.why, misfit.hint);
}

void SharedCommunicator::all_reduce(const std::vector<at::Tensor>& tensors, Reduction reduction,
                                    const WaitOptions& wait) {
  const Deadline until = deadline(wait);
  for (const auto& [type, part] : by_type(tensors)) {
    check_reducible(type, reduction);
    const FlatList list(part);
    reduce_part(type, list, reduction, until);
    list.write_back();
  }
}

void SharedCommunicator::reduce_part(at::ScalarType type, const FlatList& list, Reduction reduction,
                                     const Deadline& until) {
  const auto width = static_cast<int64_t>(c10::elementSize(type));
  const int64_t chunk = kChunkBytes / width;
  const Announcement announcement{.collective = static_cast<uint32_t>(Collective::all_reduce),
                                  .type = static_cast<int32_t>(type),
                                  .reduction = static_cast<int32_t>(reduction),
                                  .elements = list.elements()};
  std::vector<const std::byte*> inputs(static_cast<size_t>(size_));
  int64_t begin = 0;
  do {
    const int64_t count = std::min(chunk, list.elements() - begin);
    list.copy_out(begin * width, count * width, own_next());
    synchronize(announcement, until);
    const Range own = part_of(count, size_, rank_);
    for (int64_t rank = 0; rank < size_; ++rank)
      inputs[static_cast<size_t>(rank)] = memory_->buffer(rank, half_) + own.begin * width;
    // In place: only this rank reads its slice before the next barrier.
    reduce_elements(type, reduction, inputs, memory_->buffer(rank_, half_) + own.begin * width, own.count());
    cross("all_reduce", until);
    for (int64_t rank = 0; rank < size_; ++rank) {
      const Range slice = part_of(count, size_, rank);
      list.copy_in((begin + slice.begin) * width, slice.count() * width,
                   memory_->buffer(rank, half_) + slice.begin * width);
    }
    begin += count;
  } while (begin < list.elements());
}

TreePlan SharedCommunicator::meet_for_tree(const std::vector<Node>& nodes, int64_t shard_count,
                                           const Deadline& until) {
  synchronize(announcement_of(nodes, shard_count), until);
  std::vector<Announcement> said;
  for (int64_t rank = 0; rank < size_; ++rank)
    said.push_back(memory_->slot(rank).announcements[static_cast<size_t>(half_)]);
  if (const std::string why = misplaced_shard(said, shard_count); !why.empty())
    leave(ErrorCode::invalid_option, why);
  return {said, shard_count};
}

// Each rank shows its nodes, chunk by chunk, finishes the tree for its slice of the chunk, and takes the
// others' slices.
template <class T>
void SharedCommunicator::finish_tree(const std::vector<Node>& nodes, const TreePlan& plan,
                                     const at::Tensor& sum, const Deadline& until) {
  constexpr int64_t kBlock = 4096;
  const int64_t chunk = kChunkBytes / static_cast<int64_t>(sizeof(T)) /
                        static_cast<int64_t>(plan.most_nodes);  // elements of each node in a buffer
  const auto elements_at = [&](int64_t rank, size_t node, int64_t half) {
    return reinterpret_cast<T*>(memory_->buffer(rank, half)) + static_cast<int64_t>(node) * chunk;
  };
  const auto own = static_cast<size_t>(rank_);
  std::vector<T> scratch(static_cast<size_t>(scratch_blocks(plan.shard_count) * kBlock));
  std::vector<NodeElements<T>> given;
  for (const Node& node : nodes) given.push_back({node.shards, node.sum.const_data_ptr<T>()});
  const Announcement announcement{.collective = static_cast<uint32_t>(Collective::reduce_tree),
                                  .sizes = {0, 0, plan.shard_count}};
  for (int64_t begin = 0; begin < plan.elements; begin += chunk) {
    const int64_t count = std::min(chunk, plan.elements - begin);
    for (size_t node = 0; node < plan.nodes[own].size(); ++node) {
      T* to = elements_at(rank_, node, 1 - half_);
      for (int64_t at = 0; at < count; at += kBlock) {
        const int64_t size = std::min(kBlock, count - at);
        std::copy_n(finish_block(given, plan.nodes[own][node], begin + at, size, scratch.data()), size,
                    to + at);
      }
    }
    synchronize(announcement, until);
    std::vector<NodeElements<T>> all;
    for (int64_t rank = 0; rank < size_; ++rank) {
      const auto& ranges = plan.nodes[static_cast<size_t>(rank)];
      for (size_t node = 0; node < ranges.size(); ++node)
        all.push_back({ranges[node], elements_at(rank, node, half_)});
    }
    // In place: only this rank reads its slice before the next barrier.
    const Range slice = part_of(count, size_, rank_);
    for (int64_t at = slice.begin; at < slice.end; at += kBlock) {
      const int64_t size = std::min(kBlock, slice.end - at);
      const T* block = finish_block(all, {0, plan.shard_count}, at, size, scratch.data());
      if (block != elements_at(rank_, 0, half_) + at)
        std::copy_n(block, size, elements_at(rank_, 0, half_) + at);
    }
    cross("reduce_tree", until);
    for (int64_t rank = 0; rank < size_; ++rank) {
      const Range part = part_of(count, size_, rank);
      std::copy_n(elements_at(rank, 0, half_) + part.begin, part.count(),
                  sum.mutable_data_ptr<T>() + begin + part.begin);
    }
  }
}

std::vector<Node> SharedCommunicator::exchange_nodes(const std::vector<Node>& nodes, int64_t shard_count,
                                                     const WaitOptions& wait) {
  const Deadline until = deadline(wait);
  const TreePlan plan = meet_for_tree(nodes, shard_count, until);
  renew_sum(tree_sum_, plan.elements, plan.type);
  std::vector<Node> host;
  for (const Node& node : nodes) host.push_back({node.shards, node.sum.detach().to(at::kCPU).contiguous()});
  plan.type == at::kFloat ? finish_tree<float>(host, plan, tree_sum_, until)
                          : finish_tree<double>(host, plan, tree_sum_, until);
  return {{{0, shard_count}, nodes.empty() ? tree_sum_ : tree_sum_.to(nodes.front().sum.device())}};
}

void SharedCommunicator::broadcast(const std::vector<at::Tensor>& tensors, int64_t root,
                                   const WaitOptions& wait) {
  check_root(root, size_);
  const Deadline until = deadline(wait);
  for (const auto& [type, part] : by_type(tensors)) {
    const FlatList list(part);
    broadcast_part(type, list, root, until);
    if (rank_ != root) list.write_back();
  }
}

void SharedCommunicator::broadcast_part(at::ScalarType type, const FlatList& list, int64_t root,
                                        const Deadline& until) {
  const auto width = static_cast<int64_t>(c10::elementSize(type));
  const int64_t bytes = list.elements() * width;
  const Announcement announcement{.collective = static_cast<uint32_t>(Collective::broadcast),
                                  .type = static_cast<int32_t>(type),
                                  .root = static_cast<int32_t>(root),
                                  .elements = list.elements()};
  int64_t begin = 0;
  do {
    const int64_t count = std::min(kChunkBytes, bytes - begin);
    if (rank_ == root) list.copy_out(begin, count, own_next());
    synchronize(announcement, until);
    if (rank_ != root) list.copy_in(begin, count, memory_->buffer(root, half_));
    begin += count;
  } while (begin < bytes);
}

std::vector<at::Tensor> SharedCommunicator::collect(const at::Tensor& tensor, int64_t root,
                                                    const WaitOptions& wait) {
  if (root != kEveryRank) check_root(root, size_);
  const Deadline until = deadline(wait);
  const FlatList list({tensor});
  const Announcement announcement = announcement_of(tensor, root);
  synchronize(announcement, until);

  const bool wanted = root == kEveryRank || root == rank_;
  const auto width = static_cast<int64_t>(tensor.element_size());
  std::vector<FlatList> lists;
  std::vector<at::Tensor> parts;
  std::vector<int64_t> bytes;
  for (int64_t rank = 0; rank < size_; ++rank) {
    const Announcement& said = memory_->slot(rank).announcements[static_cast<size_t>(half_)];
    bytes.push_back(said.elements * width);
    if (!wanted) continue;
    parts.push_back(room_for(said));
    lists.emplace_back(std::vector<at::Tensor>{parts.back()});
  }
  const int64_t most = *std::max_element(bytes.begin(), bytes.end());
  const auto count_of = [&](int64_t rank, int64_t begin) {
    return std::clamp(bytes[static_cast<size_t>(rank)] - begin, int64_t{0}, kChunkBytes);
  };
  for (int64_t begin = 0; begin < most; begin += kChunkBytes) {
    list.copy_out(begin, count_of(rank_, begin), own_next());
    synchronize(announcement, until);
    for (int64_t rank = 0; wanted && rank < size_; ++rank)
      lists[static_cast<size_t>(rank)].copy_in(begin, count_of(rank, begin), memory_->buffer(rank, half_));
  }
  for (at::Tensor& part : parts) part = part.to(tensor.device());
  return parts;
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(std::shared_ptr<GroupMemory> memory, int64_t rank,
                                                CommunicatorOptions options) {
  if (rank < 0 || rank >= memory->size()) {
    throw Error(ErrorCode::invalid_option, "there is no rank " + std::to_string(rank) + " in a group of " +
                                               std::to_string(memory->size()));
  }
  return std::make_unique<SharedCommunicator>(std::move(memory), rank, std::move(options));
}

}  // namespace lockstep::comm
