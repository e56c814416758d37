// The communicator of ranks that send each other messages. A call begins with one message of fixed size from
// each rank to each other rank: the announced call, and its data if there are few. If the calls fit together,
// ranks send each other slices. Each rank adds up its own slice of all ranks' vectors, in the order in which
// threads and processes add, and sends the result to the others. gloo's own collectives add in another order
// and cannot be interrupted.
#include "lockstep/comm/internal/gloo_communicator.h"

#include <algorithm>
#include <array>

#include <ATen/Functions.h>

#include "lockstep/comm/internal/gloo_call.h"
#include "lockstep/comm/internal/group_reduce.h"
#include "lockstep/comm/internal/sum_buffer.h"

namespace lockstep::comm {
namespace {

constexpr int64_t kGlooBlock = 4096;  // elements that finish_block processes at a time

/// A list as one contiguous row: not copied if it is one tensor.
class Row {
 public:
  Row(const FlatList& list, int64_t width)
      : list_(list), bytes_(list.elements() * width), begin_(list.only()) {
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
  GlooCommunicator(GlooPlace place, CommunicatorOptions options)
      : link_(std::move(place), std::move(options)), rank_(link_.share().rank), size_(link_.share().size) {}

  Share share() const override { return {rank_, size_}; }
  std::string way() const override { return "gloo at " + link_.address(); }
  void barrier(const WaitOptions& wait) override;
  void all_reduce(const std::vector<at::Tensor>& tensors, Reduction reduction,
                  const WaitOptions& wait) override;
  void broadcast(const std::vector<at::Tensor>& tensors, int64_t root, const WaitOptions& wait) override;
  std::vector<Node> exchange_nodes(const std::vector<Node>& nodes, int64_t shard_count,
                                   const WaitOptions& wait) override;
  void abort(const Error& reason) override {
    link_.fail("rank " + std::to_string(rank_) + " failed: " + reason.message());
  }
  std::string failure() const override { return link_.failure(); }

 protected:
  std::vector<at::Tensor> collect(const at::Tensor& tensor, int64_t root, const WaitOptions& wait) override;

 private:
  void reduce_part(GlooCall& call, at::ScalarType type, const FlatList& list, Reduction reduction);
  void broadcast_part(GlooCall& call, at::ScalarType type, const FlatList& list, int64_t root);
  template <class T>
  void finish_tree(GlooCall& call, const std::vector<Node>& nodes, const TreePlan& plan);

  GlooLink link_;
  const int64_t rank_;
  const int64_t size_;
  at::Tensor tree_sum_;  // of the last tree, reused if nothing else holds it
};

void GlooCommunicator::barrier(const WaitOptions& wait) {
  GlooCall call(link_, wait);
  call.synchronize({.collective = static_cast<uint32_t>(Collective::barrier)});
  call.finish();
}

void GlooCommunicator::all_reduce(const std::vector<at::Tensor>& tensors, Reduction reduction,
                                  const WaitOptions& wait) {
  GlooCall call(link_, wait);
  for (const auto& [type, part] : by_type(tensors)) {
    check_reducible(type, reduction);
    const FlatList list(part);
    reduce_part(call, type, list, reduction);
    list.write_back();
  }
  call.finish();
}

void GlooCommunicator::reduce_part(GlooCall& call, at::ScalarType type, const FlatList& list,
                                   Reduction reduction) {
  const auto width = static_cast<int64_t>(c10::elementSize(type));
  const bool few = list.elements() * width <= kFewBytes;
  call.synchronize({.collective = static_cast<uint32_t>(Collective::all_reduce),
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
  call.exchange(
      {.pieces = std::vector<size_t>(static_cast<size_t>(size_), 1),
       .own = {row.begin()},
       .elements = list.elements(),
       .width = width,
       .result = row.begin(),
       .combine = [&](const std::vector<const std::byte*>& inputs, int64_t count, std::byte* result) {
         reduce_elements(type, reduction, inputs, result, count);
       }});
  row.write_back();
}

void GlooCommunicator::broadcast(const std::vector<at::Tensor>& tensors, int64_t root,
                                 const WaitOptions& wait) {
  check_root(root, size_);
  GlooCall call(link_, wait);
  for (const auto& [type, part] : by_type(tensors)) {
    const FlatList list(part);
    broadcast_part(call, type, list, root);
    if (rank_ != root) list.write_back();
  }
  call.finish();
}

void GlooCommunicator::broadcast_part(GlooCall& call, at::ScalarType type, const FlatList& list,
                                      int64_t root) {
  const auto width = static_cast<int64_t>(c10::elementSize(type));
  const int64_t bytes = list.elements() * width;
  const bool few = bytes <= kFewBytes;
  call.synchronize({.collective = static_cast<uint32_t>(Collective::broadcast),
                    .type = static_cast<int32_t>(type),
                    .root = static_cast<int32_t>(root),
                    .elements = list.elements()},
                   few && rank_ == root ? &list : nullptr);
  if (few && rank_ != root) list.copy_in(0, bytes, call.few_of(root));
  if (few) return;
  const Row row(list, width);
  for (int64_t peer = 0; rank_ == root && peer < size_; ++peer) {
    if (peer != root) call.send(row.begin(), bytes, peer, GlooTag::giving);
  }
  if (rank_ != root) call.wait_for_all({call.receive(row.begin(), bytes, root, GlooTag::giving)});
  call.finish();
  if (rank_ != root) row.write_back();
}

std::vector<at::Tensor> GlooCommunicator::collect(const at::Tensor& tensor, int64_t root,
                                                  const WaitOptions& wait) {
  if (root != kEveryRank) check_root(root, size_);
  const FlatList list({tensor});
  const auto width = static_cast<int64_t>(tensor.element_size());
  const Row row(list, width);
  const Announcement announcement = announcement_of(tensor, root);
  GlooCall call(link_, wait);
  call.synchronize(announcement, announcement.elements * width <= kFewBytes ? &list : nullptr);

  std::vector<at::Tensor> parts;
  std::vector<Message> coming;
  for (int64_t rank = 0; rank < size_; ++rank) {
    const int64_t bytes = call.said(rank).elements * width;
    const bool few = bytes <= kFewBytes;
    if (!few && rank == rank_) {
      for (int64_t peer = 0; peer < size_; ++peer) {
        if (peer != rank_ && (root == kEveryRank || root == peer))
          call.send(row.begin(), bytes, peer, GlooTag::giving);
      }
    }
    if (root != kEveryRank && root != rank_) continue;
    auto* place = static_cast<std::byte*>(parts.emplace_back(room_for(call.said(rank))).data_ptr());
    if (few || rank == rank_) {
      std::copy_n(rank == rank_ ? row.begin() : call.few_of(rank), bytes, place);
    } else {
      coming.push_back(call.receive(place, bytes, rank, GlooTag::giving));
    }
  }
  call.wait_for_all(coming);
  call.finish();
  for (at::Tensor& part : parts) part = part.to(tensor.device());
  return parts;
}

std::vector<Node> GlooCommunicator::exchange_nodes(const std::vector<Node>& nodes, int64_t shard_count,
                                                   const WaitOptions& wait) {
  GlooCall call(link_, wait);
  call.synchronize(announcement_of(nodes, shard_count));
  std::vector<Announcement> said;
  for (int64_t rank = 0; rank < size_; ++rank) said.push_back(call.said(rank));
  if (const std::string why = misplaced_shard(said, shard_count); !why.empty())
    call.leave(ErrorCode::invalid_option, why);
  const TreePlan plan(said, shard_count);
  renew_sum(tree_sum_, plan.elements, plan.type);
  std::vector<Node> host;
  for (const Node& node : nodes) host.push_back({node.shards, node.sum.detach().to(at::kCPU).contiguous()});
  plan.type == at::kFloat ? finish_tree<float>(call, host, plan) : finish_tree<double>(call, host, plan);
  return {{{0, shard_count}, nodes.empty() ? tree_sum_ : tree_sum_.to(nodes.front().sum.device())}};
}

// Writes the sum of the nodes over `range` to `result`.
template <class T>
void add_up(const std::vector<NodeElements<T>>& nodes, Range range, int64_t count, T* result) {
  std::vector<T> scratch(static_cast<size_t>(scratch_blocks(range.count()) * kGlooBlock));
  for (int64_t at = 0; at < count; at += kGlooBlock) {
    const int64_t size = std::min(kGlooBlock, count - at);
    std::copy_n(finish_block(nodes, range, at, size, scratch.data()), size, result + at);
  }
}

template <class T>
void GlooCommunicator::finish_tree(GlooCall& call, const std::vector<Node>& nodes, const TreePlan& plan) {
  std::vector<NodeElements<T>> given;
  for (const Node& node : nodes) given.push_back({node.shards, node.sum.const_data_ptr<T>()});
  std::vector<at::Tensor> made;  // nodes of which several threads have parts
  std::vector<const std::byte*> own;
  for (const Range range : plan.nodes[static_cast<size_t>(rank_)]) {
    const auto found = std::find_if(given.begin(), given.end(),
                                    [&](const NodeElements<T>& node) { return node.shards == range; });
    if (found == given.end())
      add_up(given, range, plan.elements,
             made.emplace_back(at::empty_like(tree_sum_)).template mutable_data_ptr<T>());
    own.push_back(reinterpret_cast<const std::byte*>(
        found == given.end() ? made.back().template const_data_ptr<T>() : found->elements));
  }
  std::vector<Range> ranges;  // of all pieces, rank by rank
  std::vector<size_t> pieces;
  for (const std::vector<Range>& of_rank : plan.nodes) {
    pieces.push_back(of_rank.size());
    ranges.insert(ranges.end(), of_rank.begin(), of_rank.end());
  }
  call.exchange(
      {.pieces = pieces,
       .own = own,
       .elements = plan.elements,
       .width = sizeof(T),
       .result = reinterpret_cast<std::byte*>(tree_sum_.template mutable_data_ptr<T>()),
       .combine = [&](const std::vector<const std::byte*>& inputs, int64_t count, std::byte* result) {
         std::vector<NodeElements<T>> all;
         for (size_t piece = 0; piece < inputs.size(); ++piece)
           all.push_back({ranges[piece], reinterpret_cast<const T*>(inputs[piece])});
         add_up(all, {0, plan.shard_count}, count, reinterpret_cast<T*>(result));
       }});
}

}  // namespace

std::unique_ptr<Communicator> make_gloo_communicator(GlooPlace place, CommunicatorOptions options) {
  const NoPipeSignal no_pipe_signal;
  return std::make_unique<GlooCommunicator>(std::move(place), std::move(options));
}

}  // namespace lockstep::comm
