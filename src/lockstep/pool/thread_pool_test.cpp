// What only pools of threads can do.
#include <algorithm>
#include <iterator>
#include <set>

#include "lockstep/base/test_limit.h"
#include "lockstep/device/memory.h"
#include "lockstep/pool/test_tasks.h"

// jemalloc's; null where a program has another allocator.
extern "C" [[gnu::weak]] int mallctl(const char* name, void* old, size_t* old_size, void* value,
                                     size_t value_size);

namespace lockstep::pool {
namespace {

TEST(Threads, TakeLambdas) {
  const Pool two = open(PoolKind::threads, 2);
  std::atomic<int> calls = 0;
  two.spmd([&](Worker& worker) { calls += static_cast<int>(worker.rank()) + 1; });
  EXPECT_EQ(calls, 3);
  EXPECT_THAT(two.spmd([](Worker& worker) { return std::to_string(worker.rank()); }), ElementsAre("0", "1"));
  EXPECT_THAT(two.parfor(std::vector<int>{3, 1, 2}, [](Worker&, int value) { return value * value; }),
              ElementsAre(9, 1, 4));
  EXPECT_THAT(two.parfor(CallOptions{.workers = 2}, std::vector<int>{5},
                         [](Worker& worker, int value) { return value * worker.size(); }),
              ElementsAre(10));
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
  EXPECT_THAT(error_from([&] { one.spmd([&](Worker&) { one.spmd([](Worker&) {}); }); }).message(),
              HasSubstr("cannot wait for the pool"));
  const auto expect_refused = [&](const std::function<void(const Future<int>&)>& wait) {
    EXPECT_THAT(error_from([&] {
                  one.spmd([&](Worker&) { wait(one.parfeval([](Worker&) { return 3; })); });
                }).message(),
                HasSubstr("cannot wait for the pool"));
  };
  expect_refused([](const Future<int>& other) { other.get(); });
  expect_refused([](const Future<int>& other) { next_finished(std::vector<Future<int>>{other}); });
  EXPECT_THAT(one.spmd([&](Worker&) { return one.parfeval([](Worker&) { return 3; }).wait(1ms); }),
              ElementsAre(false))
      << "this wait has an end";
  const auto ended = one.parfeval([](Worker&) { return 3; });
  ended.get();
  EXPECT_THAT(one.spmd([&](Worker&) { return ended.get(); }), ElementsAre(3));
}

TEST(Threads, APoolThatATaskTriesToCloseStaysTheSessions) {
  Session own;
  const Pool one = own.open_pool({.kind = PoolKind::threads, .workers = 1, .quiet = true});
  EXPECT_THAT(error_from([&] { one.spmd([&](Worker&) { own.close_pool(); }); }).message(),
              HasSubstr("cannot wait for the pool"));
  EXPECT_TRUE(own.current_pool().has_value());
  own.close_pool();
  EXPECT_FALSE(one.is_open());
}

TEST(Threads, EachCloseWaitsForTheEndOfTheTasks) {
  Session own;
  const Pool one = own.open_pool({.kind = PoolKind::threads, .workers = 1, .quiet = true});
  std::atomic<bool> begun = false, over = false;
  one.parfeval([&](Worker& worker) {
    begun = true;
    while (!worker.stop_asked()) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(100ms);
    over = true;
  });
  while (!begun) std::this_thread::sleep_for(1ms);
  std::thread first([&] { one.close(); });
  while (one.is_open()) std::this_thread::sleep_for(1ms);
  one.close();
  EXPECT_TRUE(over);
  first.join();
}

TEST(Threads, ATaskThatLooksWhetherToStopEndsWithItsCall) {
  std::atomic<bool> begun = false;
  const auto future = open(PoolKind::threads, 1).parfeval([&](Worker& worker) {
    begun = true;
    while (!worker.stop_asked()) std::this_thread::sleep_for(1ms);
  });
  while (!begun) std::this_thread::sleep_for(1ms);
  future.cancel();
  ASSERT_TRUE(future.wait(20s));
  EXPECT_EQ(future.state(), FutureState::cancelled);
}

TEST(Threads, TensorsOfALambdasResultArriveWithoutTheirGraph) {
  const Pool one = open(PoolKind::threads, 1);
  const at::Tensor weights = at::ones({2}).requires_grad_();
  const auto expect_plain = [&](const at::Tensor& tensor) {
    EXPECT_TRUE(at::equal(tensor, at::full({2}, 3.0)));
    EXPECT_FALSE(tensor.requires_grad());
  };
  expect_plain(one.parfeval([&](Worker&) { return weights * 3; }).get());
  expect_plain(one.spmd([&](Worker&) { return Part{.number = 1, .values = weights * 3}; }).front().values);
  expect_plain(one.spmd([&](Worker&) { return std::vector<Part>{{.number = 1, .values = weights * 3}}; })
                   .front()
                   .front()
                   .values);
  expect_plain(one.parfeval([&](Worker&) {
                    return nn::NamedTensors{{"weights", weights * 3}};
                  })
                   .get()
                   .front()
                   .second);
  expect_plain(one.parfeval([&](Worker&) { return std::optional(weights * 3); }).get().value());
  EXPECT_FALSE(one.parfeval([](Worker&) { return at::Tensor(); }).get().defined());
  const auto shared = std::make_shared<const at::Tensor>(weights * 3);
  EXPECT_TRUE(one.parfeval([&](Worker&) { return shared; }).get() == shared)
      << "a result of another type is given as it is";
}

TEST(Threads, WhatAStepFreesIsThereForTheNext) {
  if (test::kSanitized) GTEST_SKIP() << "not with a sanitizer";
  constexpr int64_t kSteps = 100, kPages = 1024;
  open(PoolKind::threads, 2).spmd([&](Worker& worker) {
    const auto take_steps = [] {
      for (int64_t step = 0; step < kSteps; ++step) at::full({kPages * 1024}, 1.0F);  // 4 KB a page
    };
    take_steps();  // until the two threads' pieces have found their places
    worker.comm().barrier();
    const int64_t before = device::page_faults();
    take_steps();
    worker.comm().barrier();
    EXPECT_LT(device::page_faults() - before, kSteps * kPages)
        << "half of what two threads take that give it all back";
  });
}

// Blocks of another worker are in the caches of another core.
TEST(Threads, WhatAWorkerFreesIsItsOwnAgain) {
  unsigned arenas = 0;
  size_t size = sizeof arenas;
  if (mallctl == nullptr || mallctl("arenas.narenas", &arenas, &size, nullptr, 0) != 0 || arenas < 3)
    GTEST_SKIP() << "not without jemalloc, and not with one core, where threads share its arenas";
  const auto blocks = open(PoolKind::threads, 2).spmd([&](Worker& worker) {
    std::set<const void*> own;
    for (int64_t step = 0; step < 50; ++step) {
      const at::Tensor small = at::empty({25'000}), large = at::empty({1'000'000 + 1'000 * (step % 3)});
      own.insert({small.data_ptr(), large.data_ptr()});
      worker.comm().barrier();
    }
    return std::vector(own.begin(), own.end());
  });
  std::vector<const void*> shared;
  std::ranges::set_intersection(blocks[0], blocks[1], std::back_inserter(shared));
  EXPECT_TRUE(shared.empty()) << shared.size() << " of " << blocks[0].size()
                              << " blocks went to both workers";
}

TEST(Threads, AThreadThatCannotStartLeavesNoPoolAndTheSessionWhole) {
  if (test::kSanitized) GTEST_SKIP() << "not with a sanitizer";
  const std::optional<Error> error = []() -> std::optional<Error> {
    const test::AddressSpaceLimit limit(40 << 20);
    try {
      open(PoolKind::threads, 100);
    } catch (const Error& caught) {
      return caught;
    }
    return {};
  }();
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(),
              testing::MatchesRegex("cannot start thread [0-9]+ of 100: Resource temporarily unavailable"));
  EXPECT_EQ(error->code(), ErrorCode::cluster);
  EXPECT_THAT(open(PoolKind::threads, 2).spmd([](Worker& worker) { return worker.rank(); }),
              ElementsAre(0, 1));
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
