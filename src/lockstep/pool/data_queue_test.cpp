// Values that tasks send to the client's handlers, over pools of threads and of processes.
#include <algorithm>

#include "lockstep/base/test_folder.h"
#include "lockstep/pool/test_tasks.h"

namespace lockstep::pool {
namespace {

class Queues : public AnyPool {};
INSTANTIATE_TEST_SUITE_P(Kinds, Queues, testing::Values(PoolKind::threads, PoolKind::processes), kind_name);

TEST_P(Queues, KeepEachSendersOrderAndAreEmptyAtTheEnd) {
  std::vector<std::vector<int64_t>> got(3);
  const DataQueue<Note> queue(
      {.capacity = 4}, [&](const Note& note) { got[static_cast<size_t>(note.rank)].push_back(note.index); });
  pool(3).spmd(talk_task, {.value = 200}, {.queue = queue});
  for (const auto& indices : got) {
    ASSERT_EQ(indices.size(), 200U);
    EXPECT_TRUE(std::is_sorted(indices.begin(), indices.end()));
  }
}

TEST_P(Queues, WhatTheHandlerThrowsFailsTheCall) {
  const DataQueue<Note> queue([](const Note& note) {
    if (note.index == 2) throw std::runtime_error("no more");
  });
  const Error error = error_from([&] { pool().spmd(talk_task, {.value = 5}, {.queue = queue}); });
  EXPECT_EQ(error.message(), "no more");
  EXPECT_THAT(error.context(), testing::Contains("in the handler of a DataQueue"));
  EXPECT_THAT(error_from([&] { pool().spmd(talk_task, {.value = 1}); }).message(), HasSubstr("no DataQueue"));
  const DataQueue<Number> other([](const Number&) {});
  EXPECT_THAT(error_from([&] { pool().spmd(talk_task, {.value = 1}, {.queue = other}); }).message(),
              HasSubstr("no field \"value\""));
}

TEST_P(Queues, HoldTheirSendersBackWhenFull) {
  std::atomic<bool> go = false;
  std::atomic<int> handled = 0;
  const DataQueue<Note> queue({.capacity = 3}, [&](const Note&) {
    while (!go) std::this_thread::sleep_for(1ms);
    ++handled;
  });
  const auto future = pool(1).parfeval(talk_task, {.value = 10}, {.queue = queue});
  EXPECT_FALSE(future.wait(200ms));
  future.cancel();
  go = true;
  EXPECT_TRUE(future.wait(5s));
  EXPECT_EQ(future.state(), FutureState::cancelled);
  EXPECT_LE(handled, 3);
}

TEST_P(Queues, AHandlerMayWaitForAnotherCall) {
  const Pool one = open(GetParam(), 1);
  std::atomic<double> answer = 0;
  // Nobody but the call has the queue.
  const auto call =
      one.parfeval(talk_task, {.value = 1}, {.queue = DataQueue<Note>([&](const Note&) {
                                               answer = one.parfeval(square_task, {.value = 3}).get().value;
                                             })});
  ASSERT_TRUE(call.wait(30s));
  EXPECT_EQ(answer, 9);
}

TEST_P(Queues, AHandlerCannotWaitForACallOfItsOwnQueue) {
  const Pool two = pool(2);
  std::vector<std::string> refusals;
  std::optional<DataQueue<Note>> queue;
  queue.emplace([&](const Note&) {
    const auto own = two.parfeval(nap_task, {.value = 0}, {.queue = *queue});
    for (const std::function<void()>& wait : std::vector<std::function<void()>>{
             [&] { own.get(); }, [&] { next_finished(std::vector<Future<Number>>{own}); },
             [&] { two.spmd(nap_task, {.value = 0}, {.workers = 1, .queue = *queue}); },
             [&] { two.parfor(nap_task, std::vector<Number>(1), {.queue = *queue}); }})
      refusals.push_back(error_from(wait).message());
  });
  const auto call = two.parfeval(talk_task, {.value = 1}, {.queue = *queue});
  ASSERT_TRUE(call.wait(30s));
  EXPECT_EQ(call.state(), FutureState::finished);
  ASSERT_EQ(refusals.size(), 4U);
  EXPECT_THAT(refusals, testing::Each(HasSubstr("cannot wait for a call of its own queue")));
}

TEST_P(Queues, AHandlerMayHoldTheLastUseOfItsQueue) {
  const Pool one = pool(1);
  std::atomic<bool> has_copy = false, is_dropped = false;
  std::optional<DataQueue<Note>> queue;
  queue.emplace([&](const Note&) {
    const auto own = *queue;
    has_copy = true;
    while (!is_dropped || own.core().use_count() > 1) std::this_thread::sleep_for(1ms);
  });
  const auto call = one.parfeval(talk_task, {.value = 1}, {.queue = *queue});
  while (!has_copy) std::this_thread::sleep_for(1ms);
  queue.reset();
  is_dropped = true;
  ASSERT_TRUE(call.wait(30s));
  EXPECT_EQ(call.state(), FutureState::finished);
}

TEST_P(Queues, AHandlerMayHoldTheLastUseOfItsPool) {
  std::optional<Pool> one = pool(1);
  std::atomic<bool> has_copy = false, is_closed = false;
  // Nobody but the call has the queue: it begins when this test has released its own use.
  const lockstep::test::TemporaryFolder folder;
  one->parfeval(await_task, {folder.path() / "go"});
  const auto call = one->parfeval(talk_task, {.value = 1}, {.queue = DataQueue<Note>([&](const Note&) {
                                                              const Pool own = *one;
                                                              has_copy = true;
                                                              while (!is_closed)
                                                                std::this_thread::sleep_for(1ms);
                                                            })});
  folder.write("go", "");
  while (!has_copy) std::this_thread::sleep_for(1ms);
  session_for(GetParam()).close_pool();
  one.reset();
  is_closed = true;
  EXPECT_TRUE(call.wait(30s));
}

// Repeated, because a value is late only if it is sent just when the call fails.
TEST_P(Queues, NothingIsHandledAfterItsCallHasFailed) {
  const Pool two = pool(2);
  std::atomic<bool> has_failed = false;
  std::atomic<int> late = 0;
  const DataQueue<Note> queue([&](const Note&) { late += has_failed ? 1 : 0; });
  for (int round = 0; round < 100; ++round) {
    has_failed = false;
    EXPECT_EQ(error_from([&] { two.spmd(talk_and_fail_task, {}, {.queue = queue}); }).message(), "gone");
    has_failed = true;
    two.spmd(place_task, {.value = 1});
  }
  EXPECT_EQ(late, 0);
}

}  // namespace
}  // namespace lockstep::pool
