// The communicator of ranks that share memory. A collective goes through it in chunks: each rank copies a chunk into its buffer, a barrier,
// then ranks read each other's. Every rank has two buffers, used in turn: who writes into one again has passed the barrier of the other,
// and all came to that one after they had read the first.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include <ATen/Functions.h>

#include "lockstep/base/text.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/internal/group_layout.h"
#include "lockstep/comm/internal/group_reduce.h"

namespace lockstep::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kSpin{20};
constexpr int64_t kSliceMilliseconds = 50;  // a stop or the time's end that comes between a look and the sleep is seen after this

enum class Collective : uint32_t { barrier = 1, all_reduce, broadcast, gather, reduce_tree };
constexpr std::array<const char*, 6> kCollectiveNames{"nothing", "barrier", "all_reduce", "broadcast", "gather", "reduce_tree"};

const char* name_of_collective(uint32_t collective) { return kCollectiveNames[collective < kCollectiveNames.size() ? collective : 0]; }

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

std::string described(const Announcement& said) {
  std::string text = name_of_collective(said.collective);
  if (said.collective == static_cast<uint32_t>(Collective::barrier)) return text;
  return text + " of " + with_commas(said.elements) + " elements of type " + c10::toString(static_cast<at::ScalarType>(said.type));
}

// A rank without shards has no vector to tell the size and type of.
bool has_vectors(const Announcement& said) { return said.sizes[0] < said.sizes[1]; }

bool fit_together(const Announcement& a, const Announcement& b) {
  if (a.collective == static_cast<uint32_t>(Collective::reduce_tree) && b.collective == a.collective) {
    return a.sizes[2] == b.sizes[2] && (!has_vectors(a) || !has_vectors(b) || (a.type == b.type && a.elements == b.elements));
  }
  const bool any_size = a.collective == static_cast<uint32_t>(Collective::gather);
  return a.collective == b.collective && a.type == b.type && a.reduction == b.reduction && a.root == b.root && (any_size || a.elements == b.elements);
}

/// A list of tensors as one row of bytes: contiguous on the CPU, and written back afterwards where they are not.
class FlatList {
 public:
  explicit FlatList(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {
    for (const at::Tensor& tensor : tensors_) {
      const at::Tensor plain = tensor.detach();
      flat_.push_back(plain.is_cpu() ? plain.contiguous() : plain.to(at::kCPU).contiguous());
      elements_ += plain.numel();
    }
  }
  int64_t elements() const { return elements_; }

  /// Visits the pieces of bytes [begin, begin + count) in order.
  void visit(int64_t begin, int64_t count, const std::function<void(std::byte* piece, int64_t bytes)>& f) const {
    int64_t at = 0;
    for (const at::Tensor& tensor : flat_) {
      const auto bytes = static_cast<int64_t>(tensor.nbytes());
      const int64_t from = std::max(begin - at, int64_t{0});
      const int64_t to = std::min(begin + count - at, bytes);
      if (from < to) f(static_cast<std::byte*>(tensor.data_ptr()) + from, to - from);
      at += bytes;
      if (at >= begin + count) return;
    }
  }
  void copy_out(int64_t begin, int64_t count, std::byte* to) const {
    visit(begin, count, [&](const std::byte* piece, int64_t bytes) {
      std::memcpy(to, piece, static_cast<size_t>(bytes));
      to += bytes;
    });
  }
  void copy_in(int64_t begin, int64_t count, const std::byte* from) const {
    visit(begin, count, [&](std::byte* piece, int64_t bytes) {
      std::memcpy(piece, from, static_cast<size_t>(bytes));
      from += bytes;
    });
  }
  void write_back() const {
    for (size_t i = 0; i < flat_.size(); ++i) {
      if (flat_[i].data_ptr() != tensors_[i].data_ptr()) tensors_[i].detach().copy_(flat_[i]);
    }
  }

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> flat_;
  int64_t elements_ = 0;
};

/// The list cut by type, in the order in which types first stand in it: the same on every rank whose list is the same.
std::vector<std::pair<at::ScalarType, std::vector<at::Tensor>>> by_type(const std::vector<at::Tensor>& tensors) {
  std::vector<std::pair<at::ScalarType, std::vector<at::Tensor>>> parts;
  for (const at::Tensor& tensor : tensors) {
    const auto found = std::find_if(parts.begin(), parts.end(), [&](const auto& part) { return part.first == tensor.scalar_type(); });
    (found == parts.end() ? parts.emplace_back(tensor.scalar_type(), std::vector<at::Tensor>{}) : *found).second.push_back(tensor);
  }
  if (parts.empty()) parts.emplace_back(at::kFloat, std::vector<at::Tensor>{});  // an empty list meets the others too
  return parts;
}

/// Who has which nodes of a tree, the same on every rank.
struct TreePlan {
  int64_t shard_count = 0;
  at::ScalarType type = at::kFloat;
  int64_t elements = 0;
  std::vector<std::vector<Range>> nodes;  // of each rank
  int64_t chunk = 0;                      // elements of each node that a rank's buffer holds

  TreePlan(const std::vector<Announcement>& said, int64_t shards) : shard_count(shards) {
    size_t most = 1;
    for (const Announcement& rank : said) {
      nodes.push_back(whole_nodes({rank.sizes[0], rank.sizes[1]}, shards));
      most = std::max(most, nodes.back().size());
      if (!has_vectors(rank)) continue;
      type = static_cast<at::ScalarType>(rank.type);
      elements = rank.elements;
    }
    chunk = kChunkBytes / static_cast<int64_t>(c10::elementSize(type)) / static_cast<int64_t>(most);
  }
};

class SharedCommunicator : public Communicator {
 public:
  SharedCommunicator(std::shared_ptr<GroupMemory> memory, int64_t rank, CommunicatorOptions options)
      : memory_(std::move(memory)), rank_(rank), size_(memory_->size()), options_(std::move(options)) {}

  Share share() const override { return {rank_, size_}; }
  void barrier(const WaitOptions& wait) override { meet({.collective = static_cast<uint32_t>(Collective::barrier)}, deadline(wait)); }
  void all_reduce(const std::vector<at::Tensor>& tensors, Reduction reduction, const WaitOptions& wait) override;
  void broadcast(const std::vector<at::Tensor>& tensors, int64_t root, const WaitOptions& wait) override;
  std::vector<Node> exchange_nodes(const std::vector<Node>& nodes, int64_t shard_count, const WaitOptions& wait) override;
  void abort(const Error& reason) override { memory_->fail("rank " + std::to_string(rank_) + " failed: " + reason.message()); }

 protected:
  std::vector<at::Tensor> collect(const at::Tensor& tensor, int64_t root, const WaitOptions& wait) override;

 private:
  struct Deadline {
    Clock::time_point time;
    std::chrono::milliseconds timeout;
    std::stop_token stop;
  };
  Deadline deadline(const WaitOptions& wait) const {
    const auto timeout = wait.timeout.value_or(options_.timeout);
    return {Clock::now() + timeout, timeout, wait.stop};
  }

  void reduce_part(at::ScalarType type, const FlatList& list, Reduction reduction, const Deadline& until);
  void broadcast_part(at::ScalarType type, const FlatList& list, int64_t root, const Deadline& until);
  TreePlan meet_for_tree(const std::vector<Node>& nodes, int64_t shard_count, const Deadline& until);
  template <class T>
  void finish_tree(const std::vector<Node>& nodes, const TreePlan& plan, const at::Tensor& sum, const Deadline& until);
  void check_root(int64_t root) const;

  /// Says what this rank does, waits for all, compares. Afterwards half_ is the half in which all ranks' chunks lie.
  void meet(const Announcement& announcement, const Deadline& until);
  void cross(const char* what, const Deadline& until) const;
  void compare() const;
  void wait_for_all(uint32_t before, const char* what, const Deadline& until) const;
  bool stopped(const Deadline& until) const { return options_.stop.stop_requested() || until.stop.stop_requested(); }
  [[noreturn]] void time_is_over(const char* what, const Deadline& until) const;
  [[noreturn]] void leave(ErrorCode code, const std::string& why, const std::string& hint = {}) const;
  [[noreturn]] void stop() const { leave(ErrorCode::cancelled, "rank " + std::to_string(rank_) + " was stopped"); }
  [[noreturn]] void throw_broken() const { throw Error(ErrorCode::cancelled, memory_->failure()); }

  /// The half that the next meeting shows.
  std::byte* own_next() const { return memory_->buffer(rank_, 1 - half_); }

  std::shared_ptr<GroupMemory> memory_;
  int64_t rank_;
  int64_t size_;
  CommunicatorOptions options_;
  int64_t half_ = 0;
  at::Tensor tree_sum_;  // of the last tree, used again when nobody else has it
};

void SharedCommunicator::leave(ErrorCode code, const std::string& why, const std::string& hint) const {
  memory_->fail(why);
  throw Error(code, why, hint);
}

void SharedCommunicator::time_is_over(const char* what, const Deadline& until) const {
  const uint64_t mine = memory_->slot(rank_).arrivals.load(std::memory_order_relaxed);
  std::vector<std::string> missing;
  for (int64_t rank = 0; rank < size_; ++rank) {
    if (memory_->slot(rank).arrivals.load(std::memory_order_relaxed) < mine) missing.push_back(std::to_string(rank));
  }
  leave(ErrorCode::timeout,
        (missing.size() == 1 ? "rank " : "ranks ") + join(missing, ", ") + " of " + std::to_string(size_) + " did not come to " + what + " within " +
            shortest(static_cast<double>(until.timeout.count()) / 1000) + " s",
        "is there a branch that only some ranks take, or one that is much slower?");
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
      if (Clock::now() >= until.time) time_is_over(what, until);
      futex_wait(word, before, kSliceMilliseconds);
    }
  }
  // A barrier that all reached counts, also when the group was broken right after.
  if ((word.load(std::memory_order_acquire) | kBroken) == (before | kBroken)) throw_broken();
}

void SharedCommunicator::cross(const char* what, const Deadline& until) const {
  GroupHeader& group = memory_->header();
  const uint32_t before = group.word.load(std::memory_order_acquire);
  if ((before & kBroken) != 0) throw_broken();
  if (stopped(until)) stop();
  memory_->slot(rank_).arrivals.fetch_add(1, std::memory_order_relaxed);
  if (group.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < static_cast<uint32_t>(size_)) return wait_for_all(before, what, until);
  group.arrived.store(0, std::memory_order_relaxed);
  group.word.fetch_add(kOneBarrier, std::memory_order_acq_rel);
  futex_wake_all(group.word);
}

void SharedCommunicator::meet(const Announcement& announcement, const Deadline& until) {
  const int64_t next = 1 - half_;
  memory_->slot(rank_).announcements[static_cast<size_t>(next)] = announcement;
  cross(name_of_collective(announcement.collective), until);
  half_ = next;
  compare();
}

void SharedCommunicator::compare() const {
  const auto half = static_cast<size_t>(half_);
  const Announcement& first = memory_->slot(0).announcements[half];
  for (int64_t rank = 1; rank < size_; ++rank) {
    const Announcement& other = memory_->slot(rank).announcements[half];
    if (fit_together(first, other)) continue;
    leave(ErrorCode::invalid_option, "rank " + std::to_string(rank) + " came with " + described(other) + " where rank 0 came with " + described(first),
          "every rank makes the same calls in the same order, with tensors of the same type and size");
  }
}

void SharedCommunicator::check_root(int64_t root) const {
  if (root < 0 || root >= size_) throw Error(ErrorCode::invalid_option, "there is no rank " + std::to_string(root) + " in a group of " + std::to_string(size_));
}

void SharedCommunicator::all_reduce(const std::vector<at::Tensor>& tensors, Reduction reduction, const WaitOptions& wait) {
  const Deadline until = deadline(wait);
  for (const auto& [type, part] : by_type(tensors)) {
    check_reducible(type, reduction);
    const FlatList list(part);
    reduce_part(type, list, reduction, until);
    list.write_back();
  }
}

void SharedCommunicator::reduce_part(at::ScalarType type, const FlatList& list, Reduction reduction, const Deadline& until) {
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
    meet(announcement, until);
    const Range own = part_of(count, size_, rank_);
    for (int64_t rank = 0; rank < size_; ++rank) inputs[static_cast<size_t>(rank)] = memory_->buffer(rank, half_) + own.begin * width;
    // In place: nobody but this rank reads its slice before the next barrier.
    reduce_elements(type, reduction, inputs, memory_->buffer(rank_, half_) + own.begin * width, own.count());
    cross("all_reduce", until);
    for (int64_t rank = 0; rank < size_; ++rank) {
      const Range slice = part_of(count, size_, rank);
      list.copy_in((begin + slice.begin) * width, slice.count() * width, memory_->buffer(rank, half_) + slice.begin * width);
    }
    begin += count;
  } while (begin < list.elements());
}

TreePlan SharedCommunicator::meet_for_tree(const std::vector<Node>& nodes, int64_t shard_count, const Deadline& until) {
  const Range own = shards_of(nodes);
  Announcement announcement{.collective = static_cast<uint32_t>(Collective::reduce_tree)};
  announcement.sizes[0] = own.begin;
  announcement.sizes[1] = own.end;
  announcement.sizes[2] = shard_count;
  if (!nodes.empty()) {
    announcement.type = static_cast<int32_t>(nodes.front().sum.scalar_type());
    announcement.elements = nodes.front().sum.numel();
  }
  meet(announcement, until);
  std::vector<Announcement> said;
  for (int64_t rank = 0; rank < size_; ++rank) said.push_back(memory_->slot(rank).announcements[static_cast<size_t>(half_)]);
  std::vector<int64_t> owners(static_cast<size_t>(std::max<int64_t>(shard_count, 0)));
  for (const Announcement& rank : said) {
    for (int64_t shard = rank.sizes[0]; shard < rank.sizes[1] && shard < shard_count; ++shard) ++owners[static_cast<size_t>(shard)];
  }
  for (size_t shard = 0; shard < owners.size(); ++shard) {
    if (owners[shard] != 1) leave(ErrorCode::invalid_option, "shard " + std::to_string(shard) + " of " + std::to_string(shard_count) + " is on " + std::to_string(owners[shard]) + " ranks, not on one");
  }
  return {said, shard_count};
}

// Each rank shows its nodes, chunk by chunk; finishes the tree for its slice of the chunk; takes the others' slices.
template <class T>
void SharedCommunicator::finish_tree(const std::vector<Node>& nodes, const TreePlan& plan, const at::Tensor& sum, const Deadline& until) {
  constexpr int64_t kBlock = 4096;
  const auto elements_at = [&](int64_t rank, size_t node, int64_t half) { return reinterpret_cast<T*>(memory_->buffer(rank, half)) + static_cast<int64_t>(node) * plan.chunk; };
  const auto own = static_cast<size_t>(rank_);
  std::vector<T> scratch(static_cast<size_t>(scratch_blocks(plan.shard_count) * kBlock));
  std::vector<NodeElements<T>> given;
  for (const Node& node : nodes) given.push_back({node.shards, node.sum.const_data_ptr<T>()});
  const Announcement announcement{.collective = static_cast<uint32_t>(Collective::reduce_tree), .sizes = {0, 0, plan.shard_count}};
  for (int64_t begin = 0; begin < plan.elements; begin += plan.chunk) {
    const int64_t count = std::min(plan.chunk, plan.elements - begin);
    for (size_t node = 0; node < plan.nodes[own].size(); ++node) {
      T* to = elements_at(rank_, node, 1 - half_);
      for (int64_t at = 0; at < count; at += kBlock) {
        const int64_t size = std::min(kBlock, count - at);
        std::copy_n(finish_block(given, plan.nodes[own][node], begin + at, size, scratch.data()), size, to + at);
      }
    }
    meet(announcement, until);
    std::vector<NodeElements<T>> all;
    for (int64_t rank = 0; rank < size_; ++rank) {
      const auto& ranges = plan.nodes[static_cast<size_t>(rank)];
      for (size_t node = 0; node < ranges.size(); ++node) all.push_back({ranges[node], elements_at(rank, node, half_)});
    }
    // In place: nobody but this rank reads its slice before the next barrier.
    const Range slice = part_of(count, size_, rank_);
    for (int64_t at = slice.begin; at < slice.end; at += kBlock) {
      const int64_t size = std::min(kBlock, slice.end - at);
      const T* block = finish_block(all, {0, plan.shard_count}, at, size, scratch.data());
      if (block != elements_at(rank_, 0, half_) + at) std::copy_n(block, size, elements_at(rank_, 0, half_) + at);
    }
    cross("reduce_tree", until);
    for (int64_t rank = 0; rank < size_; ++rank) {
      const Range part = part_of(count, size_, rank);
      std::copy_n(elements_at(rank, 0, half_) + part.begin, part.count(), sum.mutable_data_ptr<T>() + begin + part.begin);
    }
  }
}

std::vector<Node> SharedCommunicator::exchange_nodes(const std::vector<Node>& nodes, int64_t shard_count, const WaitOptions& wait) {
  const Deadline until = deadline(wait);
  const TreePlan plan = meet_for_tree(nodes, shard_count, until);
  if (plan.type != at::kFloat && plan.type != at::kDouble) throw Error(ErrorCode::invalid_option, std::string("reduce_tree takes float or double, not ") + c10::toString(plan.type));
  if (!tree_sum_.defined() || tree_sum_.use_count() > 1 || tree_sum_.numel() != plan.elements || tree_sum_.scalar_type() != plan.type) {
    tree_sum_ = at::empty({plan.elements}, at::TensorOptions().dtype(plan.type));
  }
  std::vector<Node> host;
  for (const Node& node : nodes) host.push_back({node.shards, node.sum.detach().to(at::kCPU).contiguous()});
  plan.type == at::kFloat ? finish_tree<float>(host, plan, tree_sum_, until) : finish_tree<double>(host, plan, tree_sum_, until);
  return {{{0, shard_count}, nodes.empty() ? tree_sum_ : tree_sum_.to(nodes.front().sum.device())}};
}

void SharedCommunicator::broadcast(const std::vector<at::Tensor>& tensors, int64_t root, const WaitOptions& wait) {
  check_root(root);
  const Deadline until = deadline(wait);
  for (const auto& [type, part] : by_type(tensors)) {
    const FlatList list(part);
    broadcast_part(type, list, root, until);
    if (rank_ != root) list.write_back();
  }
}

void SharedCommunicator::broadcast_part(at::ScalarType type, const FlatList& list, int64_t root, const Deadline& until) {
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
    meet(announcement, until);
    if (rank_ != root) list.copy_in(begin, count, memory_->buffer(root, half_));
    begin += count;
  } while (begin < bytes);
}

std::vector<at::Tensor> SharedCommunicator::collect(const at::Tensor& tensor, int64_t root, const WaitOptions& wait) {
  if (root != kEveryRank) check_root(root);
  if (static_cast<size_t>(tensor.dim()) > kMostDimensions)
    throw Error(ErrorCode::invalid_option, "gather takes tensors of at most 16 dimensions, not " + std::to_string(tensor.dim()));
  const Deadline until = deadline(wait);
  const FlatList list({tensor});
  Announcement announcement{.collective = static_cast<uint32_t>(Collective::gather),
                            .type = static_cast<int32_t>(tensor.scalar_type()),
                            .root = static_cast<int32_t>(root),
                            .elements = tensor.numel(),
                            .dimensions = static_cast<uint64_t>(tensor.dim())};
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), announcement.sizes.begin());
  meet(announcement, until);

  const bool wanted = root == kEveryRank || root == rank_;
  const auto width = static_cast<int64_t>(tensor.element_size());
  std::vector<FlatList> lists;
  std::vector<at::Tensor> parts;
  std::vector<int64_t> bytes;
  for (int64_t rank = 0; rank < size_; ++rank) {
    const Announcement& said = memory_->slot(rank).announcements[static_cast<size_t>(half_)];
    bytes.push_back(said.elements * width);
    if (!wanted) continue;
    parts.push_back(at::empty(at::IntArrayRef(said.sizes.data(), said.dimensions), tensor.options().device(at::kCPU)));
    lists.emplace_back(std::vector<at::Tensor>{parts.back()});
  }
  const int64_t most = *std::max_element(bytes.begin(), bytes.end());
  const auto count_of = [&](int64_t rank, int64_t begin) { return std::clamp(bytes[static_cast<size_t>(rank)] - begin, int64_t{0}, kChunkBytes); };
  for (int64_t begin = 0; begin < most; begin += kChunkBytes) {
    list.copy_out(begin, count_of(rank_, begin), own_next());
    meet(announcement, until);
    for (int64_t rank = 0; wanted && rank < size_; ++rank) lists[static_cast<size_t>(rank)].copy_in(begin, count_of(rank, begin), memory_->buffer(rank, half_));
  }
  for (at::Tensor& part : parts) part = part.to(tensor.device());
  return parts;
}

}  // namespace

std::unique_ptr<Communicator> make_communicator(std::shared_ptr<GroupMemory> memory, int64_t rank, CommunicatorOptions options) {
  if (rank < 0 || rank >= memory->size()) {
    throw Error(ErrorCode::invalid_option, "there is no rank " + std::to_string(rank) + " in a group of " + std::to_string(memory->size()));
  }
  return std::make_unique<SharedCommunicator>(std::move(memory), rank, std::move(options));
}

}  // namespace lockstep::comm
