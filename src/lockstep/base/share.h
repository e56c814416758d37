// How a count is cut into contiguous parts, and which part belongs to which worker. Shards, workers and
// splits all use this rule.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

/// A half-open range of indices.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  constexpr int64_t count() const { return end - begin; }
  constexpr bool contains(int64_t index) const { return begin <= index && index < end; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// The range of one index.
constexpr Range single(int64_t index) { return {index, index + 1}; }

/// Part `index` of `total` items cut into `parts`: contiguous, in order, the remainder spread by one over the
/// first parts. A part may be empty when parts > total.
constexpr Range part_of(int64_t total, int64_t parts, int64_t index) {
  const int64_t size = total / parts;
  const int64_t extra = total % parts;
  const int64_t begin = index * size + (index < extra ? index : extra);
  return {begin, begin + size + (index < extra ? 1 : 0)};
}

/// Number of parts of `size` items that hold `total`.
constexpr int64_t divided_up(int64_t total, int64_t size) { return (total + size - 1) / size; }

/// The part whose range holds `item`.
constexpr int64_t owner_of(int64_t total, int64_t parts, int64_t item) {
  const int64_t size = total / parts;
  const int64_t extra = total % parts;
  const int64_t large = extra * (size + 1);
  return item < large ? item / (size + 1) : extra + (item - large) / size;
}

/// The item at which a node (lo, hi) of the tree over shards is split: comm/shard_tree.h.
constexpr int64_t middle_of(int64_t lo, int64_t hi) { return lo + (hi - lo) / 2; }

/// Folds the shards [lo, hi) in the tree: leaf(shard) for each, and add(left, right) makes `left` the value
/// of every inner node.
template <class Leaf, class Add>
auto fold_tree(int64_t lo, int64_t hi, const Leaf& leaf, const Add& add) {
  if (hi - lo == 1) return leaf(lo);
  auto left = fold_tree(lo, middle_of(lo, hi), leaf, add);
  add(left, fold_tree(middle_of(lo, hi), hi, leaf, add));
  return left;
}

/// The sum over the shards [lo, hi) in the tree: sum(shard) gives a leaf, and nodes add by +=.
template <class Sum>
auto tree_sum(int64_t lo, int64_t hi, const Sum& sum) {
  return fold_tree(lo, hi, sum, [](auto& left, const auto& right) { left += right; });
}

/// The index of this worker, and the number of workers.
struct Share {
  int64_t rank = 0;
  int64_t size = 1;
};

/// How items are dealt: first to the ranks, contiguous and in order, then each rank's part over its workers.
/// Every rank has the same number of workers, so a rank's part does not depend on it.
struct Deal {
  int64_t ranks = 1;
  int64_t workers = 1;              ///< of all ranks
  std::vector<int64_t> loads = {};  ///< a number above 0 for each rank, or for each worker, which gets items
                                    ///< in proportion to it; empty: all get equally many (part_of)

  int64_t workers_of_rank() const { return workers / ranks; }
  Range of_rank(int64_t count, int64_t rank) const;
  /// How many items each rank gets.
  std::vector<int64_t> parts(int64_t count) const;
  /// worker: of all ranks.
  Range of_worker(int64_t count, int64_t worker) const;
  int64_t rank_of(int64_t count, int64_t item) const;
  int64_t worker_of(int64_t count, int64_t item) const;

 private:
  int64_t begin_of(int64_t count, int64_t load) const;
  bool has_worker_loads() const { return !loads.empty() && static_cast<int64_t>(loads.size()) == workers; }
};

/// Number of shards of a mini-batch of `count` samples if `shards` were requested. No shard has a single
/// sample unless the mini-batch has only one, because batch norm has no variance over one sample.
constexpr int64_t used_shards(int64_t shards, int64_t count) {
  const int64_t most = count / 2 > 1 ? count / 2 : 1;
  return shards < most ? shards : most;
}

}  // namespace lockstep
