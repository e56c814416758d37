#include "lockstep/comm/shard_tree.h"

#include <algorithm>
#include <bit>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/internal/sum_buffer.h"
#include "lockstep/device/kernels.h"

namespace lockstep::comm {
namespace {

void descend(int64_t lo, int64_t hi, Range own, std::vector<Range>& whole) {
  if (hi <= own.begin || own.end <= lo) return;
  if (own.begin <= lo && hi <= own.end) {
    whole.push_back({lo, hi});
    return;
  }
  const int64_t middle = middle_of(lo, hi);
  descend(lo, middle, own, whole);
  descend(middle, hi, own, whole);
}

// A node of the tree, the half that contains a shard, and the other half.
struct Halves {
  Range whole;
  Range own;
  Range other;
};

Halves halves_of(Range node, int64_t shard) {
  const int64_t middle = middle_of(node.begin, node.end);
  const Range left{node.begin, middle}, right{middle, node.end};
  return shard < middle ? Halves{node, left, right} : Halves{node, right, left};
}

// From the root down to a node, without the node itself.
std::vector<Halves> path_to(Range wanted, int64_t shard_count) {
  std::vector<Halves> path;
  for (Range node{0, shard_count}; node != wanted; node = path.back().own) {
    if (!node.contains(wanted.begin) || node.count() <= std::max<int64_t>(1, wanted.count())) {
      throw Error(ErrorCode::internal, "the shards " + std::to_string(wanted.begin) + " to " +
                                           std::to_string(wanted.end - 1) + " are no node of the tree over " +
                                           std::to_string(shard_count));
    }
    path.push_back(halves_of(node, wanted.begin));
  }
  return path;
}

}  // namespace

std::vector<Range> whole_nodes(Range own, int64_t shard_count) {
  std::vector<Range> whole;
  if (own.count() > 0) descend(0, shard_count, own, whole);
  return whole;
}

Range node_from(int64_t shard, int64_t most, int64_t shard_count) {
  Range node{0, shard_count};
  while (node.begin != shard || (node.count() > most && node.count() > 1)) node = halves_of(node, shard).own;
  return node;
}

Range shards_of(const std::vector<Node>& nodes) {
  if (nodes.empty()) return {};
  std::vector<Range> parts;
  for (const Node& node : nodes) parts.push_back(node.shards);
  std::sort(parts.begin(), parts.end(), [](Range a, Range b) { return a.begin < b.begin; });
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].begin != parts[i - 1].end)
      throw Error(ErrorCode::internal, "the nodes of one rank leave out shard " +
                                           std::to_string(parts[i - 1].end) + ", or have it twice");
  }
  return {parts.front().begin, parts.back().end};
}

void NodeStack::begin(int64_t shard_count) {
  shard_count_ = shard_count;
  for (Node& node : nodes_) free_.push_back(std::move(node.sum));
  nodes_.clear();
}

void NodeStack::leave_held() { std::erase_if(free_, is_held_elsewhere); }

at::Tensor NodeStack::take_buffer() {
  // Zeros, because the padding between parameters is never written and must stay a number.
  if (free_.empty()) return at::zeros({count_}, at::TensorOptions().dtype(type_).device(device_));
  at::Tensor buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

std::vector<Node>::iterator NodeStack::find(Range shards) {
  return std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& node) { return node.shards == shards; });
}

// The order of the two halves changes no bit.
NodeStack::Destination NodeStack::begin_node(Range node) {
  std::vector<Halves> path = path_to(node, shard_count_);
  const auto overlaps = [&](const Node& held) {
    return held.shards.begin < node.end && node.begin < held.shards.end;
  };
  if (const auto held = std::find_if(nodes_.begin(), nodes_.end(), overlaps); held != nodes_.end()) {
    throw Error(ErrorCode::internal,
                "a worker gave shard " + std::to_string(std::max(node.begin, held->shards.begin)) + " twice");
  }
  auto sum = path.empty() ? nodes_.end() : find(path.back().other);
  if (sum == nodes_.end()) {
    nodes_.push_back({node, take_buffer()});
    taking_ = {nodes_.back().sum};
    return {taking_.buffer, taking_.add};
  }
  taking_ = {.buffer = sum->sum, .add = true};
  sum->shards = path.back().whole;
  for (path.pop_back(); !path.empty(); path.pop_back()) {
    const auto other = find(path.back().other);
    if (other == nodes_.end()) break;
    sum = find(path.back().own);
    taking_.merges.emplace_back(sum->sum, other->sum);
    sum->shards = path.back().whole;
    nodes_.erase(other);
  }
  return {taking_.buffer, taking_.add};
}

void NodeStack::take_part(Range elements,
                          const std::function<void(const at::Tensor& part, bool add)>& write) {
  const auto part_of = [&](const at::Tensor& buffer) {
    return buffer.narrow(0, elements.begin, elements.count());
  };
  write(part_of(taking_.buffer), taking_.add);
  for (const auto& [sum, other] : taking_.merges) part_of(sum).add_(part_of(other));
}

void NodeStack::end_node() {
  for (auto& [sum, other] : taking_.merges) free_.push_back(std::move(other));
  taking_ = {};
}

void NodeStack::take(Range node, const std::function<void(const at::Tensor& buffer, bool add)>& write) {
  begin_node(node);
  take_part(Range{0, count_}, write);
  end_node();
}

namespace {

template <class N>
const N* find(const std::vector<N>& nodes, int64_t lo, int64_t hi) {
  for (const N& node : nodes) {
    if (node.shards.begin == lo && node.shards.end == hi) return &node;
  }
  return nullptr;
}

template <class T>
const T* elements_of(const Node& node) {
  return node.sum.const_data_ptr<T>();
}
template <class T>
const T* elements_of(const NodeElements<T>& node) {
  return node.elements;
}

void expect_inner(int64_t lo, int64_t hi) {
  if (hi - lo <= 1) throw Error(ErrorCode::internal, "no worker holds shard " + std::to_string(lo));
}

template <class T, class N>
const T* finish(const std::vector<N>& nodes, int64_t lo, int64_t hi, int64_t begin, int64_t count,
                T* scratch) {
  if (const N* node = find(nodes, lo, hi)) return elements_of<T>(*node) + begin;
  expect_inner(lo, hi);
  const int64_t middle = middle_of(lo, hi);
  const T* left = finish(nodes, lo, middle, begin, count, scratch);
  const T* right = finish(nodes, middle, hi, begin, count, scratch + count);
  device::kernels<T>().add(scratch, left, right, count);
  return scratch;
}

}  // namespace

at::Tensor finish_whole(const std::vector<Node>& nodes, Range shards) {
  if (const Node* node = find(nodes, shards.begin, shards.end)) return node->sum;
  expect_inner(shards.begin, shards.end);
  const int64_t middle = middle_of(shards.begin, shards.end);
  const at::Tensor left = finish_whole(nodes, Range{shards.begin, middle});
  return left + finish_whole(nodes, Range{middle, shards.end}).to(left.device());
}

at::Tensor finish_whole(const std::vector<Node>& nodes, int64_t shard_count) {
  return finish_whole(nodes, Range{0, shard_count});
}

template <class T>
const T* finish_block(const std::vector<Node>& nodes, int64_t shard_count, int64_t begin, int64_t count,
                      T* scratch) {
  return finish(nodes, 0, shard_count, begin, count, scratch);
}
template const float* finish_block<float>(const std::vector<Node>&, int64_t, int64_t, int64_t, float*);
template const double* finish_block<double>(const std::vector<Node>&, int64_t, int64_t, int64_t, double*);

template <class T>
const T* finish_block(const std::vector<NodeElements<T>>& nodes, Range shards, int64_t begin, int64_t count,
                      T* scratch) {
  return finish(nodes, shards.begin, shards.end, begin, count, scratch);
}
template const float* finish_block<float>(const std::vector<NodeElements<float>>&, Range, int64_t, int64_t,
                                          float*);
template const double* finish_block<double>(const std::vector<NodeElements<double>>&, Range, int64_t, int64_t,
                                            double*);

int64_t scratch_blocks(int64_t shard_count) { return std::bit_width(static_cast<uint64_t>(shard_count)) + 1; }

}  // namespace lockstep::comm
