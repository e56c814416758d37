#include "lockstep/comm/shard_tree.h"

#include <algorithm>
#include <bit>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
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

}  // namespace

std::vector<Range> whole_nodes(Range own, int64_t shard_count) {
  std::vector<Range> whole;
  if (own.count() > 0) descend(0, shard_count, own, whole);
  return whole;
}

Range shards_of(const std::vector<Node>& nodes) {
  if (nodes.empty()) return {};
  std::vector<Range> parts;
  for (const Node& node : nodes) parts.push_back(node.shards);
  std::sort(parts.begin(), parts.end(), [](Range a, Range b) { return a.begin < b.begin; });
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].begin != parts[i - 1].end) throw Error(ErrorCode::internal, "the nodes of one rank leave out shard " + std::to_string(parts[i - 1].end) + ", or have it twice");
  }
  return {parts.front().begin, parts.back().end};
}

size_t NodeStack::take_buffer() {
  if (free_.empty()) {
    // Zeros, for the padding between parameters is never written and must stay a number.
    buffers_.push_back(at::zeros({count_}, at::TensorOptions().dtype(type_).device(device_)));
    return buffers_.size() - 1;
  }
  const size_t buffer = free_.back();
  free_.pop_back();
  return buffer;
}

void NodeStack::begin(Range own, int64_t shard_count) {
  next_ = 0;
  if (own == own_ && shard_count == shard_count_) return;
  own_ = own;
  shard_count_ = shard_count;
  leaves_.clear();
  nodes_.clear();
  free_.clear();
  for (size_t buffer = buffers_.size(); buffer > 0; --buffer) free_.push_back(buffer - 1);
  for (const Range node : whole_nodes(own, shard_count)) {
    const size_t buffer = take_buffer();
    compute(node.begin, node.end, buffer);
    nodes_.push_back({node, buffers_[buffer]});
  }
}

void NodeStack::compute(int64_t lo, int64_t hi, size_t buffer) {
  if (hi - lo == 1) {
    leaves_.push_back({buffer, false, {}});
    return;
  }
  const int64_t middle = middle_of(lo, hi);
  compute(lo, middle, buffer);
  if (hi - middle == 1) {
    leaves_.push_back({buffer, true, {}});
    return;
  }
  const size_t right = take_buffer();
  compute(middle, hi, right);
  leaves_.back().merges.emplace_back(buffer, right);
  free_.push_back(right);
}

const NodeStack::Leaf& NodeStack::next_leaf() const {
  if (next_ >= leaves_.size()) throw Error(ErrorCode::internal, "a worker gave more shards than it owns");
  return leaves_[next_];
}

void NodeStack::take(const std::function<void(const at::Tensor& buffer, bool add)>& write) {
  take({0, count_}, write);
  end_shard();
}

void NodeStack::take(Range elements, const std::function<void(const at::Tensor& part, bool add)>& write) {
  const Leaf& leaf = next_leaf();
  const auto part_of = [&](size_t buffer) { return buffers_[buffer].narrow(0, elements.begin, elements.count()); };
  write(part_of(leaf.buffer), leaf.add);
  for (const auto& [sum, other] : leaf.merges) part_of(sum).add_(part_of(other));
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
const T* finish(const std::vector<N>& nodes, int64_t lo, int64_t hi, int64_t begin, int64_t count, T* scratch) {
  if (const N* node = find(nodes, lo, hi)) return elements_of<T>(*node) + begin;
  expect_inner(lo, hi);
  const int64_t middle = middle_of(lo, hi);
  const T* left = finish(nodes, lo, middle, begin, count, scratch);
  const T* right = finish(nodes, middle, hi, begin, count, scratch + count);
  device::kernels<T>().add(scratch, left, right, count);
  return scratch;
}

at::Tensor finish_tensors(const std::vector<Node>& nodes, int64_t lo, int64_t hi) {
  if (const Node* node = find(nodes, lo, hi)) return node->sum;
  expect_inner(lo, hi);
  const int64_t middle = middle_of(lo, hi);
  const at::Tensor left = finish_tensors(nodes, lo, middle);
  return left + finish_tensors(nodes, middle, hi).to(left.device());
}

}  // namespace

at::Tensor finish_whole(const std::vector<Node>& nodes, int64_t shard_count) { return finish_tensors(nodes, 0, shard_count); }

template <class T>
const T* finish_block(const std::vector<Node>& nodes, int64_t shard_count, int64_t begin, int64_t count, T* scratch) {
  return finish(nodes, 0, shard_count, begin, count, scratch);
}
template const float* finish_block<float>(const std::vector<Node>&, int64_t, int64_t, int64_t, float*);
template const double* finish_block<double>(const std::vector<Node>&, int64_t, int64_t, int64_t, double*);

template <class T>
const T* finish_block(const std::vector<NodeElements<T>>& nodes, Range shards, int64_t begin, int64_t count, T* scratch) {
  return finish(nodes, shards.begin, shards.end, begin, count, scratch);
}
template const float* finish_block<float>(const std::vector<NodeElements<float>>&, Range, int64_t, int64_t, float*);
template const double* finish_block<double>(const std::vector<NodeElements<double>>&, Range, int64_t, int64_t, double*);

int64_t scratch_blocks(int64_t shard_count) { return std::bit_width(static_cast<uint64_t>(shard_count)) + 1; }

}  // namespace lockstep::comm
