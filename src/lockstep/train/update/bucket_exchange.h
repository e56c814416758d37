// The exchange between ranks in buckets. Its thread sends the gradients of one bucket while backward passes
// make the gradients of the next ones.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/shard_tree.h"

namespace lockstep::train {

/// Shared by the workers of a process. In each step every worker calls begin(), then ready() for each bucket
/// (in any order), unless the run ends before; then one thread calls finish(), while the workers wait.
class BucketExchange {
 public:
  /// agree: whether the ranks have agreed to drop the step. It is called once in each step, before the first
  /// bucket is sent, or in finish(); after it the workers complete the step. Nothing else may use `comm`
  /// between the first begin() and the end of finish().
  struct Options {
    std::vector<Range> buckets;  ///< elements; equal on all ranks, in the order in which they are sent
    int64_t workers = 1;         ///< of this process
    std::function<bool()> agree;
  };
  /// stacks: of the workers; they must outlive the object.
  BucketExchange(comm::Communicator& comm, const std::vector<comm::NodeStack>& stacks, Options options);
  ~BucketExchange();
  BucketExchange(const BucketExchange&) = delete;
  BucketExchange& operator=(const BucketExchange&) = delete;

  void begin(int64_t shard_count);
  /// One worker's stack has this bucket complete. Any thread.
  void ready(size_t bucket);

  /// The sum over all shards, or nothing if the ranks have agreed to drop the step. Throws what the exchange
  /// threw.
  std::vector<comm::Node> finish();

  /// Seconds that the last step's exchange ran beside backward, that is, before finish() was called.
  double hidden_seconds() const { return hidden_seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Span {
    Clock::time_point begin;
    Clock::time_point end;
  };
  void serve();
  bool wait_for(size_t bucket);
  void exchange_step();
  void exchange(Range bucket);
  void reset();

  comm::Communicator& comm_;
  const std::vector<comm::NodeStack>& stacks_;
  const Options options_;
  at::Tensor sum_;

  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t shard_count_ = 0;
  std::vector<int64_t> ready_;  ///< number of workers that have each bucket
  bool done_ = false;           ///< with this step
  bool closing_ = false;
  bool ended_ = false;  ///< as agreed in this step
  std::exception_ptr error_;
  std::vector<Span> spans_;  ///< of this step
  double hidden_seconds_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::train
