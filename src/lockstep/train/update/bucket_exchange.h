// The exchange between ranks in buckets. Its thread sends the gradients of one bucket while backward passes
// make the gradients of the next ones.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/shard_tree.h"
#include "lockstep/device/side_stream.h"

namespace lockstep::train {

/// Shared by the workers of a process. In each step every worker calls begin(), then begin_node() for each
/// node that it computes, its own or another worker's, and ready() for each bucket of it (in any order),
/// unless the run ends before; then one thread calls finish(), while the workers wait.
class BucketExchange {
 public:
  /// agree: whether the ranks have agreed to drop the step. It is called once in each step, before the first
  /// bucket is sent, or in finish(); after it the workers complete the step. Nothing else may use `comm`
  /// between the last worker's begin() and the end of finish().
  struct Options {
    std::vector<Range> buckets;  ///< elements; equal on all ranks, in the order in which they are sent
    int64_t workers = 1;         ///< of this process
    std::function<bool()> agree;
    at::Tensor sum;  ///< where the sum is put, of all elements
    /// Of the stacks' device. The buckets are sent there.
    std::unique_ptr<device::SideStream> stream = std::make_unique<device::SideStream>();
  };
  /// stacks: of the workers; they must outlive the object.
  BucketExchange(comm::Communicator& comm, const std::vector<comm::NodeStack>& stacks, Options options);
  ~BucketExchange();
  BucketExchange(const BucketExchange&) = delete;
  BucketExchange& operator=(const BucketExchange&) = delete;

  /// own_count: of the shards, those that this worker adds to the process's. Any thread.
  void begin(int64_t own_count, int64_t shard_count);
  /// A worker begins to compute a node of so many shards. True if it may be the worker's last one: nobody has
  /// begun the rest, and it is at most such a node for each other worker. Workers that have not begun the
  /// step are taken to have as many shards as those that have. Any thread.
  bool begin_node(int64_t shards);
  /// A stack has this bucket of so many more shards, whoever they were dealt to, or will have it when the
  /// device has done what this thread has sent to it. Any thread.
  void ready(size_t bucket, int64_t shards);

  /// The sum over all shards, or nothing if the ranks have agreed to drop the step. Throws what the exchange
  /// threw.
  std::vector<comm::Node> finish();

  /// Seconds that the last step's exchange ran beside backward, that is, before finish() was called and the
  /// device had done what was sent to it before.
  double hidden_seconds() const { return hidden_seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Span {
    Clock::time_point begin;
    Clock::time_point end;
  };
  void serve();
  bool is_ready(size_t bucket) const { return begun_workers_ == options_.workers && ready_[bucket] == own_; }
  bool wait_for(size_t bucket);
  void exchange_step();
  void exchange(size_t bucket);
  void reset();

  comm::Communicator& comm_;
  const std::vector<comm::NodeStack>& stacks_;
  const Options options_;

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t shard_count_ = 0;
  int64_t begun_workers_ = 0;   ///< that have begun this step
  int64_t own_ = 0;             ///< shards of these workers
  int64_t unbegun_ = 0;         ///< of them, those that nobody has begun to compute
  std::vector<int64_t> ready_;  ///< of them, the number that each bucket has
  std::vector<std::vector<device::SideStream::Mark>> marks_;  ///< of their writing, for each bucket
  bool all_given_ = false;                                    ///< of this step, what workers give
  bool done_ = false;                                         ///< with this step
  bool closing_ = false;
  bool ended_ = false;  ///< as agreed in this step
  std::exception_ptr error_;
  std::vector<Span> spans_;  ///< of this step
  double hidden_seconds_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::train
