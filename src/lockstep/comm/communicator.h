// The communication between the ranks of a group. One interface for a group of one, of threads and of
// processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/error.h"
#include "lockstep/base/share.h"
#include "lockstep/comm/group_memory.h"
#include "lockstep/comm/shard_tree.h"

namespace lockstep::comm {

enum class Reduction { sum, mean, max };
enum class FlagReduction { and_, or_ };

/// How long a rank waits for the others.
struct WaitOptions {
  std::optional<std::chrono::milliseconds> timeout{};  ///< empty: the communicator's own timeout
  std::stop_token stop{};                              ///< in addition to the communicator's own
};

/// One rank's side of a group. Every rank calls the same members in the same order (collectives); one thread
/// of a rank at a time, except abort. A member throws
///   timeout         naming the ranks that did not come in time
///   cancelled       after a stop, or when another rank failed, with that rank's reason
///   invalid_option  when ranks called different members, or with tensors that do not fit together, or when
///                   this rank waits for one whose communicator is destroyed (its task has returned)
/// After any of these the group is broken: all its members throw cancelled on every rank, and tensors that
/// were being written are undefined. Where every rank has a GPU, tensors on these GPUs go from GPU to GPU
/// (gpu_communicator.h). Otherwise all tensors go through the host, and a rank that gave no node to a tree
/// gets the sum on the CPU.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual Share share() const = 0;
  int64_t rank() const { return share().rank; }
  int64_t size() const { return share().size; }
  /// The means of communication, for plans and messages: "shared memory".
  virtual std::string way() const = 0;

  /// Returns when all ranks have called it. What they wrote before is then visible to all.
  virtual void barrier(const WaitOptions& wait = {}) = 0;

  /// Every tensor becomes the sum, mean or largest value over the ranks, in place. The ranks' tensors have
  /// equal types and sizes. Sums go in rank order, ((rank 0 + rank 1) + rank 2) + ..., so they are equal on
  /// all ranks and for threads and processes, but their bits depend on the number of ranks; the tree over
  /// shards (shard_tree.h) does not. 16-bit floats are added in 32 bits and rounded once.
  virtual void all_reduce(const std::vector<at::Tensor>& tensors, Reduction reduction,
                          const WaitOptions& wait = {}) = 0;

  /// One number for each rank, or one flag.
  double all_reduce(double value, Reduction reduction, const WaitOptions& wait = {});
  bool all_reduce(bool flag, FlagReduction reduction, const WaitOptions& wait = {});

  /// Every rank's tensors become those of rank `root`, in place.
  virtual void broadcast(const std::vector<at::Tensor>& tensors, int64_t root,
                         const WaitOptions& wait = {}) = 0;

  /// The ranks' tensors in rank order, of one type and any sizes. On rank `root` only (on other ranks the
  /// list is empty), or on every rank.
  std::vector<at::Tensor> gather(const at::Tensor& tensor, int64_t root, const WaitOptions& wait = {}) {
    return collect(tensor, root, wait);
  }
  std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const WaitOptions& wait = {}) {
    return collect(tensor, kEveryRank, wait);
  }

  /// The ranks' tensors concatenated along `dimension`, on every rank.
  at::Tensor cat(const at::Tensor& tensor, int64_t dimension = 0, const WaitOptions& wait = {});

  /// The fixed tree over the shards of all ranks: the sum of the vectors of all `shard_count` shards, on
  /// every rank, with the same bits for any number of ranks. Each rank gives the nodes of its shards
  /// (NodeStack::nodes(), or those of several stacks). A rank's shards are contiguous; it may have none; each
  /// shard is on one rank. Vectors are flat [n], float or double, of one size and type on all ranks. The sum
  /// may be in one of the nodes, or in memory that the next call uses again if nobody holds it any more.
  at::Tensor reduce_tree(const std::vector<Node>& nodes, int64_t shard_count, const WaitOptions& wait = {}) {
    return finish_whole(exchange_nodes(nodes, shard_count, wait), shard_count);
  }

  /// The part of reduce_tree that needs the other ranks. Returns nodes with which this rank can finish the
  /// tree alone (finish_block, finish_whole). A group of one returns them unchanged, so it adds and copies
  /// nothing that the reader of a block would not add anyway.
  virtual std::vector<Node> exchange_nodes(const std::vector<Node>& nodes, int64_t shard_count,
                                           const WaitOptions& wait = {}) = 0;

  /// Breaks the group because this rank cannot continue, for this reason. Any thread.
  virtual void abort(const Error& reason) = 0;

  /// Why the group is broken, as far as this rank knows; empty while it is not broken. Any thread.
  virtual std::string failure() const = 0;

 protected:
  static constexpr int64_t kEveryRank = -1;
  virtual std::vector<at::Tensor> collect(const at::Tensor& tensor, int64_t root,
                                          const WaitOptions& wait) = 0;
};

/// For ranks that cannot be lost, such as threads of one process, or that may take any time. A rank that
/// fails breaks the group and so ends the wait.
inline constexpr std::chrono::milliseconds kAsLongAsItTakes = std::chrono::hours(24 * 365);

/// The defaults for all calls of a communicator.
struct CommunicatorOptions {
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  std::stop_token stop{};
};

/// The group of one.
std::unique_ptr<Communicator> make_communicator(CommunicatorOptions options = {});

/// Rank `rank` of the group that shares `memory`, with threads or with processes.
std::unique_ptr<Communicator> make_communicator(std::shared_ptr<GroupMemory> memory, int64_t rank,
                                                CommunicatorOptions options = {});

}  // namespace lockstep::comm
