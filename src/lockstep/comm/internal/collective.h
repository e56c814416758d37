// What all communicators share: how a rank announces its call, whether the announced calls fit together, and
// tensors as rows of bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"
#include "lockstep/comm/internal/group_layout.h"
#include "lockstep/comm/shard_tree.h"

namespace lockstep::comm {

enum class Collective : uint32_t { barrier = 1, all_reduce, broadcast, gather, reduce_tree };
const char* name_of_collective(uint32_t collective);

/// How long a call waits, and what ends it earlier.
struct Deadline {
  using Clock = std::chrono::steady_clock;
  Clock::time_point time;
  std::chrono::milliseconds timeout;
  std::stop_token stop;

  static Deadline after(std::chrono::milliseconds timeout, std::stop_token stop) {
    return {Clock::now() + timeout, timeout, std::move(stop)};
  }
};

/// "rank 1 of 3 did not come to barrier within 0.2 s"
std::string late_ranks(const std::vector<int64_t>& missing, int64_t size, const char* what,
                       std::chrono::milliseconds timeout);
inline constexpr const char* kLateHint =
    "is there a branch that only some ranks take, or one that is much slower?";
/// "rank 1 of 3 has left while rank 0 waits for it in barrier"
std::string gone_ranks(const std::vector<int64_t>& gone, Share waiting, const char* what);
inline constexpr const char* kGoneHint =
    "every rank makes the same calls: let all ranks return, or leave a loop, at the same step";

/// Throws invalid_option if there is no such rank.
void check_root(int64_t root, int64_t size);

/// Announce a rank's part of a tree, and a tensor to gather. Throw internal and invalid_option if that is
/// impossible.
Announcement announcement_of(const std::vector<Node>& nodes, int64_t shard_count);
Announcement announcement_of(const at::Tensor& gathered, int64_t root);

/// An empty tensor of the size that a rank announced to gather.
at::Tensor room_for(const Announcement& gathered);

/// Why the ranks' calls do not fit together; empty where they do. Rank 0's call counts as the right one.
struct Misfit {
  std::string why;
  const char* hint =
      "every rank makes the same calls in the same order, with tensors of the same type and size";
};
Misfit misfit_of(int64_t size, const std::function<const Announcement&(int64_t rank)>& said);

/// Names a shard that is on no rank or on several; empty where there is none.
std::string misplaced_shard(const std::vector<Announcement>& said, int64_t shard_count);

/// A list of tensors as one row of bytes: contiguous on the CPU, and written back afterwards if it was
/// copied.
class FlatList {
 public:
  explicit FlatList(std::vector<at::Tensor> tensors);
  int64_t elements() const { return elements_; }
  /// The row itself if it is one tensor, else null.
  std::byte* only() const {
    return flat_.size() == 1 ? static_cast<std::byte*>(flat_.front().data_ptr()) : nullptr;
  }

  /// Visits the pieces of bytes [begin, begin + count) in order.
  void visit(int64_t begin, int64_t count,
             const std::function<void(std::byte* piece, int64_t bytes)>& f) const;
  void copy_out(int64_t begin, int64_t count, std::byte* to) const;
  void copy_in(int64_t begin, int64_t count, const std::byte* from) const;
  void write_back() const;

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> flat_;
  int64_t elements_ = 0;
};

/// The list split by type, in the order in which the types first appear. The result is the same on every rank
/// that has the same list.
std::vector<std::pair<at::ScalarType, std::vector<at::Tensor>>> by_type(
    const std::vector<at::Tensor>& tensors);

/// Which rank has which nodes of a tree; the same on every rank.
struct TreePlan {
  int64_t shard_count = 0;
  at::ScalarType type = at::kFloat;
  int64_t elements = 0;
  std::vector<std::vector<Range>> nodes;  ///< of each rank
  size_t most_nodes = 1;                  ///< of one rank

  /// Throws invalid_option for vectors that are neither float nor double.
  TreePlan(const std::vector<Announcement>& said, int64_t shards);
};

}  // namespace lockstep::comm
