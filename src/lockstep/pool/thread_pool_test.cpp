// What only pools of threads can do.
#include "lockstep/pool/test_tasks.h"

namespace lockstep::pool {
namespace {

TEST(Threads, TakeLambdas) {
  const Pool two = open(PoolKind::threads, 2);
  std::atomic<int> calls = 0;
  two.spmd([&](Worker& worker) { calls += static_cast<int>(worker.rank()) + 1; });
  EXPECT_EQ(calls, 3);
  EXPECT_THAT(two.spmd([](Worker& worker) { return std::to_string(worker.rank()); }), ElementsAre("0", "1"));
  EXPECT_THAT(two.parfor(std::vector<int>{3, 1, 2}, [](Worker&, int value) { return value * value; }), ElementsAre(9, 1, 4));
  EXPECT_THAT(two.parfor(CallOptions{.workers = 2}, std::vector<int>{5}, [](Worker& worker, int value) { return value * worker.size(); }), ElementsAre(10));
  EXPECT_EQ(two.parfeval([](Worker& worker) { return worker.size(); }).get(), 1);
  const Error error = error_from([&] {
    two.spmd([](Worker& worker) {
      if (worker.rank() == 1) throw Error(ErrorCode::io, "gone");
      worker.comm().barrier();
    });
  });
  EXPECT_EQ(error.message(), "gone");
  EXPECT_THAT(error.context(), testing::Contains("in a lambda, rank 1 of 2"));
}

TEST(Threads, ATaskCannotWaitForItsOwnPool) {
  const Pool one = open(PoolKind::threads, 1);
  EXPECT_THAT(error_from([&] { one.spmd([&](Worker&) { one.spmd([](Worker&) {}); }); }).message(), HasSubstr("cannot wait for the pool"));
}

TEST(Threads, AFailedLambdaIsOverBeforeItsCallerGoesOn) {
  const Pool two = open(PoolKind::threads, 2);
  std::atomic<bool> over = false;
  error_from([&] {
    two.spmd([&](Worker& worker) {
      if (worker.rank() == 0) throw Error(ErrorCode::io, "gone");
      std::this_thread::sleep_for(100ms);
      over = true;
    });
  });
  EXPECT_TRUE(over);
}

TEST(Threads, WhatWasSentIsNotWhatTheTaskWritesAfterwards) {
  std::atomic<bool> written = false;
  double seen = 0;
  const DataQueue<Part> queue([&](const Part& part) {
    while (!written) std::this_thread::sleep_for(1ms);
    seen = part.values.sum().item<double>();
  });
  open(PoolKind::threads, 1).spmd({.queue = queue}, [&](Worker& worker) {
    const at::Tensor values = at::ones({8});
    worker.send(Part{.number = 1, .values = values});
    values.zero_();
    written = true;
  });
  EXPECT_EQ(seen, 8);
}

}  // namespace
}  // namespace lockstep::pool
