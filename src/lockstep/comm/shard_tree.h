// The fixed binary tree over the shards of a mini-batch: node (lo, hi) is the sum of its halves, split at lo
// + (hi - lo) / 2. It does not matter which worker adds a node, or when: the same two operands meet. So the
// sum has the same bits for any number of workers.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"

namespace lockstep::comm {

/// Folds one value per shard in the tree: combine(left, right) for every inner node.
template <class T, class Combine>
T fold(const std::vector<T>& leaves, int64_t lo, int64_t hi, const Combine& combine) {
  return fold_tree(
      lo, hi, [&](int64_t shard) { return leaves[static_cast<size_t>(shard)]; },
      [&](T& left, const T& right) { left = combine(left, right); });
}

/// A node that one worker has completely: the sum over `shards` in a flat buffer.
struct Node {
  Range shards;
  at::Tensor sum;
};

/// The largest nodes that a worker with the shards `own` of `shard_count` can complete, in order.
std::vector<Range> whole_nodes(Range own, int64_t shard_count);

/// The largest node that begins with this shard and has at most this many shards.
Range node_from(int64_t shard, int64_t most, int64_t shard_count);

/// The contiguous shards that these nodes cover; empty without nodes. Throws internal where they leave a gap
/// or overlap.
Range shards_of(const std::vector<Node>& nodes);

/// One worker's side of the tree. Takes the vectors of shards or of whole nodes, in any order, and adds two
/// halves as soon as both are there. For contiguous shards it needs at most log2(shards) + 1 buffers. One
/// thread at a time.
class NodeStack {
 public:
  /// Vectors have `count` elements of this type on this device.
  NodeStack(int64_t count, at::ScalarType type, at::Device device)
      : count_(count), type_(type), device_(device) {}

  /// Starts a step of `shard_count` shards; this worker has none of them yet.
  void begin(int64_t shard_count);

  /// After begin: releases buffers that something else holds, directly or through a view, so that the step
  /// does not write into them. Do not call it if the last step's nodes are kept and their memory is to be
  /// used again.
  void leave_held();

  /// Takes the vector of a node, which is one shard or the sum over several. `write(buffer, add)` writes it
  /// into the buffer, or adds it to the buffer's content. Throws internal for shards that the worker already
  /// has, and for shards that are no node.
  void take(Range node, const std::function<void(const at::Tensor& buffer, bool add)>& write);

  /// Where a node's elements belong, and whether they are added to what is there.
  struct Destination {
    at::Tensor buffer;
    bool add;
  };

  /// The same in parts: each element once, in any order, between begin_node and end_node. nodes() includes
  /// the node from begin_node on; its elements are valid once they are taken. Before taking some elements,
  /// the caller may write them to their place itself; `write` then leaves them unchanged.
  Destination begin_node(Range node);
  void take_part(Range elements, const std::function<void(const at::Tensor& part, bool add)>& write);
  void end_node();

  /// The largest nodes that this worker has completely; their buffers stay until the next begin.
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  // The effect of a vector on the nodes.
  struct Taking {
    at::Tensor buffer = {};
    bool add = false;
    std::vector<std::pair<at::Tensor, at::Tensor>> merges = {};  // afterwards: first += second
  };
  at::Tensor take_buffer();
  std::vector<Node>::iterator find(Range shards);

  int64_t count_;
  at::ScalarType type_;
  at::Device device_;
  std::vector<at::Tensor> free_;
  std::vector<Node> nodes_;
  Taking taking_;
  int64_t shard_count_ = 0;
};

/// Finishes the tree for elements [begin, begin + count) from all workers' nodes. Returns a pointer to the
/// sum, which is `scratch` (count * depth elements, depth from scratch_blocks) or one of the nodes itself. T
/// is float or double; CPU only.
template <class T>
const T* finish_block(const std::vector<Node>& nodes, int64_t shard_count, int64_t begin, int64_t count,
                      T* scratch);

/// The elements of a node, not copied.
template <class T>
struct NodeElements {
  Range shards;
  const T* elements;
};

/// The same for the sum over `shards`, which must be a node of the tree: elements [begin, begin + count).
template <class T>
const T* finish_block(const std::vector<NodeElements<T>>& nodes, Range shards, int64_t begin, int64_t count,
                      T* scratch);

/// The same with whole tensors, for buffers on any device: the sum is a new tensor on the device of the first
/// node, or one of the nodes itself.
at::Tensor finish_whole(const std::vector<Node>& nodes, int64_t shard_count);
/// The same for the sum over `shards`, which must be a node of the tree.
at::Tensor finish_whole(const std::vector<Node>& nodes, Range shards);

/// Number of blocks of scratch that finish_block needs for this many shards.
int64_t scratch_blocks(int64_t shard_count);

}  // namespace lockstep::comm
