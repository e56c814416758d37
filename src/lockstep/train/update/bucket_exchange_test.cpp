#include "lockstep/train/update/bucket_exchange.h"

#include <atomic>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/train/update/test_ranks.h"

namespace lockstep::train {
namespace {

constexpr int64_t kBucketShards = 7;
const std::vector<Range> kBuckets{{700, 1000}, {300, 700}, {0, 300}};

// The sizes in a step. Each step has its own gradients.
std::vector<at::Tensor> gradients_of(int64_t step) {
  return test::vectors_of(kBucketShards, 1000, at::kFloat, static_cast<uint64_t>(step));
}

// The workers of a rank, and the exchange that they feed.
struct BucketRank {
  BucketRank(comm::Communicator& comm, int64_t workers, std::function<bool()> agree,
             std::unique_ptr<device::SideStream> stream = std::make_unique<device::SideStream>())
      : share(comm.share()),
        stacks(static_cast<size_t>(workers), comm::NodeStack(1000, at::kFloat, at::kCPU)),
        exchange(comm, stacks,
                 {.buckets = kBuckets,
                  .workers = workers,
                  .agree = std::move(agree),
                  .sum = at::empty({1000}),
                  .stream = std::move(stream)}) {}

  // All workers take their shards of a step, each on its own thread; the buckets are ready in any order.
  void take(const std::vector<at::Tensor>& gradients) {
    const auto workers = static_cast<int64_t>(stacks.size());
    comm::ThreadGroup(workers).run([&](Share thread) {
      comm::NodeStack& stack = stacks[static_cast<size_t>(thread.rank)];
      const Range own =
          Deal{share.size, share.size * workers}.of_worker(kBucketShards, share.rank * workers + thread.rank);
      stack.begin(kBucketShards);
      exchange.begin(own.count(), kBucketShards);
      const auto buckets = static_cast<int64_t>(kBuckets.size());
      for (int64_t shard = own.begin; shard < own.end; ++shard) {
        exchange.begin_node(1);
        stack.take(single(shard), test::writer_of(gradients[static_cast<size_t>(shard)]));
        for (int64_t i = 0; i < buckets; ++i)
          exchange.ready(static_cast<size_t>((i + thread.rank) % buckets), 1);
      }
    });
  }

  const Share share;
  std::vector<comm::NodeStack> stacks;
  BucketExchange exchange;
};

TEST(BucketExchange, GivesTheBitsOfTheTree) {
  for (const int64_t ranks : {1, 2, 3}) {
    for (const int64_t workers : {1, 3}) {
      std::atomic<int> asked = 0, wrong = 0;
      test::on_ranks(ranks, [&](comm::Communicator& comm) {
        BucketRank rank(comm, workers, [&] { return ++asked < 0; });
        for (int64_t step = 0; step < 3; ++step) {
          const auto gradients = gradients_of(step);
          rank.take(gradients);
          const at::Tensor sum = comm::finish_whole(rank.exchange.finish(), kBucketShards);
          wrong += !at::equal(sum, test::tree_sum_of(gradients, 0, kBucketShards));
          wrong += rank.exchange.hidden_seconds() < 0;
        }
      });
      EXPECT_EQ(wrong, 0) << ranks << " ranks of " << workers;
      EXPECT_EQ(asked, 3 * ranks) << "once in each step";
    }
  }
}

// In the place of a GPU: a device that does its work, in order, only while somebody waits for it.
class LateDevice {
 public:
  void send(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
  }
  size_t sent() {
    const std::lock_guard lock(mutex_);
    return works_.size();
  }
  void finish(size_t count) {
    const std::lock_guard lock(mutex_);
    for (; done_ < count; ++done_) works_[done_]();
  }

 private:
  std::mutex mutex_;
  std::vector<std::function<void()>> works_;
  size_t done_ = 0;
};

class LateStream : public device::SideStream {
 public:
  explicit LateStream(LateDevice& device) : device_(device) {}
  Mark mark() const override { return std::make_shared<size_t>(device_.sent()); }
  void wait(const Mark& mark) const override { device_.finish(*static_cast<const size_t*>(mark.get())); }

 private:
  LateDevice& device_;
};

TEST(BucketExchange, SendsWhatTheDeviceHasDone) {
  std::atomic<int> wrong = 0;
  test::on_ranks(2, [&](comm::Communicator& comm) {
    LateDevice device;
    BucketRank rank(
        comm, 2, [] { return false; }, std::make_unique<LateStream>(device));
    for (int64_t step = 0; step < 3; ++step) {
      const auto gradients = gradients_of(step);
      comm::ThreadGroup(2).run([&](Share thread) {
        const int64_t shard = 2 * comm.rank() + thread.rank;
        comm::NodeStack& stack = rank.stacks[static_cast<size_t>(thread.rank)];
        stack.begin(4);
        rank.exchange.begin(1, 4);
        rank.exchange.begin_node(1);
        stack.begin_node(single(shard));
        for (size_t bucket = 0; bucket < kBuckets.size(); ++bucket) {
          const Range part = kBuckets[bucket];
          const at::Tensor values = gradients[static_cast<size_t>(shard)].narrow(0, part.begin, part.count());
          stack.take_part(
              part, [&](const at::Tensor& to, bool) { device.send([to, values] { to.copy_(values); }); });
          rank.exchange.ready(bucket, 1);
        }
        stack.end_node();
      });
      const at::Tensor sum = comm::finish_whole(rank.exchange.finish(), 4);
      wrong += !at::equal(sum, test::tree_sum_of(gradients, 0, 4));
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(BucketExchange, OfARankWithoutShardsWaitsForWhoReadsTheLastSum) {
  std::atomic<int> wrong = 0;
  test::on_ranks(2, [&](comm::Communicator& comm) {
    LateDevice device;
    BucketRank rank(
        comm, 1, [] { return false; }, std::make_unique<LateStream>(device));
    for (int64_t step = 0; step < 3; ++step) {
      const auto gradients = gradients_of(step);
      const int64_t own = comm.rank() == 0 ? 1 : 0;
      comm::NodeStack& stack = rank.stacks.front();
      stack.begin(1);
      rank.exchange.begin(own, 1);
      if (own > 0) {
        rank.exchange.begin_node(1);
        stack.begin_node(single(0));
        for (size_t bucket = 0; bucket < kBuckets.size(); ++bucket) {
          stack.take_part(kBuckets[bucket], [&](const at::Tensor& to, bool) {
            to.copy_(gradients[0].narrow(0, kBuckets[bucket].begin, kBuckets[bucket].count()));
          });
          rank.exchange.ready(bucket, 1);
        }
        stack.end_node();
      }
      const at::Tensor sum = comm::finish_whole(rank.exchange.finish(), 1);
      device.send([&wrong, sum, expected = gradients[0]] { wrong += !at::equal(sum, expected); });
    }
    device.finish(device.sent());
  });
  EXPECT_EQ(wrong, 0);
}

TEST(BucketExchange, AStepThatTheRanksEndGivesNothingAndTheNextOneAll) {
  for (const bool taken : {false, true}) {
    std::atomic<int> wrong = 0;
    test::on_ranks(2, [&](comm::Communicator& comm) {
      int64_t step = 0;
      BucketRank rank(comm, 2, [&] { return step == 0; });
      const auto gradients = gradients_of(1);
      if (taken) rank.take(gradients);
      wrong += !rank.exchange.finish().empty();
      ++step;
      rank.take(gradients);
      const at::Tensor sum = comm::finish_whole(rank.exchange.finish(), kBucketShards);
      wrong += !at::equal(sum, test::tree_sum_of(gradients, 0, kBucketShards));
    });
    EXPECT_EQ(wrong, 0) << taken;
  }
}

TEST(BucketExchange, AWorkerThatLeavesOutItsShardsIsAnError) {
  const auto comm = comm::make_communicator();
  BucketRank rank(*comm, 2, [] { return false; });
  rank.exchange.begin(4, kBucketShards);
  rank.exchange.begin(3, kBucketShards);
  rank.exchange.ready(0, 4);
  EXPECT_THROW(rank.exchange.finish(), Error);
}

TEST(BucketExchange, AWorkerThatLeavesOutTheLastBucketsIsAnErrorAndNoWait) {
  test::on_ranks(2, [](comm::Communicator& comm) {
    BucketRank rank(comm, 1, [] { return false; });
    const Range own = Deal{2, 2}.of_worker(kBucketShards, comm.rank());
    comm::NodeStack& stack = rank.stacks.front();
    stack.begin(kBucketShards);
    rank.exchange.begin(own.count(), kBucketShards);
    for (int64_t shard = own.begin; shard < own.end; ++shard)
      stack.take(single(shard), test::writer_of(at::ones({1000})));
    rank.exchange.ready(0, own.count());
    EXPECT_THROW(rank.exchange.finish(), Error);
  });
}

TEST(BucketExchange, AStepThatIsDroppedMayLackTheLastBuckets) {
  const auto comm = comm::make_communicator();
  BucketRank rank(*comm, 1, [] { return true; });
  for (int step = 0; step < 2; ++step) {
    rank.exchange.begin(kBucketShards, kBucketShards);
    rank.exchange.ready(0, kBucketShards);
    EXPECT_TRUE(rank.exchange.finish().empty());
  }
}

TEST(BucketExchange, ANodeMayBeAWorkersLastWhereTheOthersCanBeginTheRest) {
  const auto comm = comm::make_communicator();
  BucketRank rank(*comm, 3, [] { return true; });
  for (const int64_t own : {3, 2, 2}) rank.exchange.begin(own, kBucketShards);
  EXPECT_FALSE(rank.exchange.begin_node(2)) << "5 are left, and the two others could begin 4";
  EXPECT_FALSE(rank.exchange.begin_node(1));
  EXPECT_TRUE(rank.exchange.begin_node(2)) << "2 are left";
  EXPECT_TRUE(rank.exchange.begin_node(1));
  EXPECT_TRUE(rank.exchange.begin_node(1));
  EXPECT_TRUE(rank.exchange.finish().empty());
}

TEST(BucketExchange, WorkersThatHaveNotBegunAreTakenToHaveAsManyShards) {
  const auto comm = comm::make_communicator();
  BucketRank several(*comm, 2, [] { return true; });
  several.exchange.begin(2, 4);
  EXPECT_FALSE(several.exchange.begin_node(1)) << "the other worker will have two";
  several.exchange.begin(2, 4);
  EXPECT_FALSE(several.exchange.begin_node(1));
  EXPECT_TRUE(several.exchange.begin_node(1));
  BucketRank one_each(*comm, 2, [] { return true; });
  one_each.exchange.begin(1, 2);
  EXPECT_TRUE(one_each.exchange.begin_node(1));
}

TEST(BucketExchange, WhatTheExchangeThrowsIsThrownInTheStep) {
  const auto memory = comm::GroupMemory::make(2);
  const auto other = comm::make_communicator(memory, 1);
  const auto comm = comm::make_communicator(memory, 0);
  BucketRank rank(*comm, 1, [] { return false; });
  other->abort(Error(ErrorCode::io, "disk gone"));
  rank.take(gradients_of(0));
  try {
    rank.exchange.finish();
    FAIL() << "an exchange with a rank that failed";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("disk gone"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace lockstep::train
