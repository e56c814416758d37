// The exchange between ranks in buckets, on a thread of its own, beside the backward passes that make the
// gradients of the buckets to come.
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

/// Of one process. Each step goes: every worker says begin(), then ready() for each bucket (in any order),
/// unless the run ends before; then one thread calls finish(), while no worker does anything.
class BucketExchange {
 public:
  /// agree: whether the ranks have agreed to end the run, asked once in each step, before its first bucket
  /// goes or in finish(); from then on the workers take the step to its end. It and the buckets are the only
  /// ones to use `comm` between the first begin() and the end of finish().
  struct Options {
    std::vector<Range> buckets;  ///< elements; all ranks the same, in the order in which they go
    int64_t workers = 1;         ///< of this process
    std::function<bool()> agree;
  };
  /// stacks: the workers', which outlive this.
  BucketExchange(comm::Communicator& comm, const std::vector<comm::NodeStack>& stacks, Options options);
  ~BucketExchange();
  BucketExchange(const BucketExchange&) = delete;
  BucketExchange& operator=(const BucketExchange&) = delete;

  void begin(int64_t shard_count);
  /// A worker's stack has this bucket whole. Any thread.
  void ready(size_t bucket);

  /// The sum over all shards, or nothing where the ranks have agreed to end. Throws what the exchange threw.
  std::vector<comm::Node> finish();

  /// How long the last step's exchange ran beside backward, seconds: until finish() was called.
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
  std::vector<int64_t> ready_;  ///< workers, of each bucket
  bool done_ = false;           ///< with this step
  bool closing_ = false;
  bool ended_ = false;  ///< as agreed in this step
  std::exception_ptr error_;
  std::vector<Span> spans_;  ///< of this step
  double hidden_seconds_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::train
