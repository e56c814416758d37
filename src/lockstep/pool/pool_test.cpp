// The same tests over pools of threads and of processes.
#include <algorithm>

#include "lockstep/base/test_folder.h"
#include "lockstep/pool/test_tasks.h"

namespace lockstep::pool {
namespace {

INSTANTIATE_TEST_SUITE_P(Kinds, AnyPool, testing::Values(PoolKind::threads, PoolKind::processes), kind_name);

TEST_P(AnyPool, SpmdGivesOneResultForEachRank) {
  const auto places = pool(3).spmd(place_task, {.value = 10});
  ASSERT_EQ(places.size(), 3U);
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(places[rank].rank, static_cast<int64_t>(rank));
    EXPECT_EQ(places[rank].size, 3);
    EXPECT_EQ(places[rank].sum, 60);
  }
  EXPECT_EQ(pool(3).spmd(place_task, {.value = 1}, {.workers = 2}).size(), 2U);
  EXPECT_EQ(pool(3).spmd(place_task, {.value = 1}, {.workers = 1}).front().sum, 1);
}

TEST_P(AnyPool, EveryKindOfFieldTravels) {
  Everything input{.flag = true,
                   .count = -7,
                   .number = std::numeric_limits<double>::quiet_NaN(),
                   .text = "häuser\n",
                   .mood = Mood::wild,
                   .counts = {1, 2},
                   .numbers = {0.1, -std::numeric_limits<double>::infinity()},
                   .texts = {"", "b"}};
  input.values = at::arange(6, at::kFloat).view({2, 3}).t().requires_grad_();
  input.part = {.number = 4, .values = at::ones({0, 2}, at::kLong)};
  input.parts = {{.number = 1}, {.number = 2, .values = at::full({}, 2.5, at::kDouble)}};
  const Everything result = pool().parfeval(echo_task, input).get();
  EXPECT_TRUE(result.flag);
  EXPECT_EQ(result.count, -7);
  EXPECT_TRUE(std::isnan(result.number));
  EXPECT_EQ(result.text, input.text);
  EXPECT_EQ(result.mood, Mood::wild);
  EXPECT_EQ(result.counts, input.counts);
  EXPECT_EQ(result.numbers, input.numbers);
  EXPECT_EQ(result.texts, input.texts);
  EXPECT_TRUE(at::equal(result.values, input.values.detach() * 2));
  EXPECT_FALSE(result.values.requires_grad());
  EXPECT_FALSE(result.nothing.defined());
  EXPECT_EQ(result.part.values.sizes(), at::IntArrayRef({0, 2}));
  ASSERT_EQ(result.parts.size(), 2U);
  EXPECT_FALSE(result.parts[0].values.defined());
  EXPECT_EQ(result.parts[1].values.item<double>(), 2.5);
}

TEST_P(AnyPool, LargeTensorsTravel) {
  Everything input;
  input.values = at::arange(3'000'000, at::kFloat);
  const Pool three = pool();
  std::vector<Future<Everything>> futures{three.parfeval(echo_task, input), three.parfeval(echo_task, input),
                                          three.parfeval(echo_task, input)};
  for (const auto& future : futures) EXPECT_TRUE(at::equal(future.get().values, input.values * 2));
}

TEST_P(AnyPool, ParforKeepsTheOrderOfInputs) {
  std::vector<Number> inputs;
  std::vector<double> squares;
  for (int i = 0; i < 10; ++i) inputs.push_back({static_cast<double>(i)});
  for (const Number& number : pool().parfor(square_task, inputs)) squares.push_back(number.value);
  EXPECT_THAT(squares, ElementsAre(0, 1, 4, 9, 16, 25, 36, 49, 64, 81));
  EXPECT_TRUE(pool().parfor(square_task, {}).empty());
}

TEST_P(AnyPool, ParforThrowsTheFirstFailure) {
  const Error error = error_from([&] { pool().parfor(fail_task, {{"none", 0}, {"error", 0}, {"none", 0}}); });
  EXPECT_EQ(error.message(), "the disk is gone");
  EXPECT_THAT(error.context(), testing::Contains("in parfor, input 2 of 3"));
  EXPECT_THAT(error.context(), testing::Contains("in fail"));
}

TEST_P(AnyPool, ResultsInTheOrderOfFinishing) {
  const Pool three = pool(3);
  const lockstep::test::TemporaryFolder folder;
  const std::vector<std::string> names{"first", "second", "third"};
  std::vector<Future<Signal>> futures;
  for (const std::string& name : names) futures.push_back(three.parfeval(await_task, {folder.path() / name}));
  EXPECT_EQ(error_from([&] {
              std::vector<Future<Signal>> slow{futures[0]};
              next_finished(slow, 10ms);
            }).code(),
            ErrorCode::timeout);
  for (const size_t finished : {1, 2, 0}) {
    folder.write(names[finished], "");
    EXPECT_EQ(next_finished(futures), finished);
  }
  EXPECT_FALSE(next_finished(futures).has_value());
}

TEST_P(AnyPool, ErrorsTravelWithTheirCause) {
  const Error error = error_from([&] { pool(3).spmd(fail_task, {.what = "error", .rank = 1}); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_EQ(error.message(), "the disk is gone");
  EXPECT_EQ(error.hint(), "buy another one");
  EXPECT_THAT(error.context(), testing::Contains("in fail, rank 1 of 3"));
  EXPECT_EQ(error_from([&] { pool(3).spmd(fail_task, {.what = "exception", .rank = 2}); }).message(), "odd");
  EXPECT_THAT(error_from([&] { pool(3).spmd(fail_task, {.what = "torch", .rank = 0}); }).message(),
              HasSubstr("must match the size"));
  const Error memory = error_from([&] { pool(3).spmd(fail_task, {.what = "memory", .rank = 1}); });
  EXPECT_EQ(memory.code(), ErrorCode::out_of_memory);
  EXPECT_THAT(memory.context(), testing::Contains("in fail, rank 1 of 3"));
  EXPECT_NO_THROW(pool(3).spmd(fail_task, {.what = "none"}));
}

TEST_P(AnyPool, ARankThatReturnsEarlyEndsTheWaitOfTheOthers) {
  const Error error = error_from([&] { pool(3).spmd(fail_task, {.what = "leave", .rank = 1}); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_option);
  EXPECT_THAT(error.message(),
              testing::MatchesRegex("rank 1 of 3 has left while rank [02] waits for it in barrier"));
  EXPECT_THAT(error.context(), testing::Contains(testing::MatchesRegex("in fail, rank [02] of 3")));
  EXPECT_THAT(error.hint(), HasSubstr("every rank makes the same calls"));
}

TEST_P(AnyPool, CancelEndsCollectives) {
  const Pool three = pool();
  std::atomic<int> started = 0;
  const DataQueue<Note> queue([&](const Note&) { ++started; });
  const auto future = three.parfeval(circle_task, {.what = "all_reduce"}, {.workers = 2, .queue = queue});
  while (started == 0) std::this_thread::sleep_for(1ms);
  future.cancel();
  ASSERT_TRUE(future.wait(5s));
  EXPECT_EQ(future.state(), FutureState::cancelled);
}

TEST_P(AnyPool, WhoIsAskedToStopGivesItsResult) {
  const Pool three = pool(3);
  std::atomic<int> started = 0;
  const DataQueue<Note> queue([&](const Note&) { ++started; });
  const auto group = three.parfeval(asked_task, {}, {.workers = 2, .queue = queue});
  const auto other = three.parfeval(asked_task, {}, {.queue = queue});
  const auto waiting = three.parfeval(asked_task, {}, {.workers = 3});
  while (started < 2) std::this_thread::sleep_for(1ms);
  group.ask_to_stop();
  ASSERT_TRUE(group.wait(20s));
  EXPECT_EQ(group.state(), FutureState::finished);
  EXPECT_EQ(group.get().size, 2);
  EXPECT_GE(group.get().sum, 3);
  EXPECT_EQ(other.state(), FutureState::running) << "another call was asked";
  waiting.ask_to_stop();
  EXPECT_EQ(waiting.state(), FutureState::pending);
  other.ask_to_stop();
  ASSERT_TRUE(waiting.wait(20s));
  EXPECT_EQ(waiting.get().size, 3);
  EXPECT_EQ(waiting.get().sum, 0) << "it was asked before it began";
  other.ask_to_stop();
  EXPECT_EQ(other.get().size, 1);
}

TEST_P(AnyPool, RankZeroHearsWhatTheClientSays) {
  const Pool three = pool(3);
  const auto first = three.parfeval(listen_task, {}, {.workers = 3});
  const auto second = three.parfeval(listen_task, {}, {.workers = 3});
  second.say("before it began");
  for (const char* word : {"one", "two", "end"}) first.say(word);
  EXPECT_THAT(first.get().words, ElementsAre("one", "two"));
  second.say("later");
  second.say("end");
  EXPECT_THAT(second.get().words, ElementsAre("before it began", "later"));
  second.say("too late");
  three.parfeval(listen_task).cancel();
}

TEST_P(AnyPool, ClosingEndsEverything) {
  const Pool two = pool();
  const auto running = two.parfeval(nap_task, {.value = 30});
  const DataQueue<Note> queue([](const Note&) {});
  const auto group = two.parfeval(circle_task, {.what = "barrier"}, {.workers = 2, .queue = queue});
  session_for(GetParam()).close_pool();
  EXPECT_EQ(running.state(), FutureState::cancelled);
  ASSERT_TRUE(group.wait(20s)) << "when its values are handled";
  EXPECT_EQ(group.state(), FutureState::cancelled);
  EXPECT_EQ(running.error()->message(), "the pool was closed");
  EXPECT_FALSE(two.is_open());
  EXPECT_EQ(error_from([&] { two.parfeval(nap_task, {.value = 0}); }).message(), "the pool was closed");
  EXPECT_FALSE(session_for(GetParam()).current_pool().has_value());
}

TEST_P(AnyPool, FuturesTellTheirState) {
  const Pool one = pool(1);
  const auto first = one.parfeval(nap_task, {.value = 0.2});
  const auto second = one.parfeval(nap_task, {.value = 0.0});
  EXPECT_EQ(first.state(), FutureState::running);
  EXPECT_EQ(second.state(), FutureState::pending);
  EXPECT_FALSE(second.wait(1ms));
  EXPECT_TRUE(first.wait(std::chrono::milliseconds::max()));
  EXPECT_EQ(first.get().value, 0.2);
  EXPECT_TRUE(second.wait(10s));
  EXPECT_EQ(second.state(), FutureState::finished);
  EXPECT_FALSE(second.error().has_value());
  EXPECT_EQ(second.get().value, 0.0);
  EXPECT_EQ(second.get().value, 0.0);
}

TEST_P(AnyPool, CancelOfPendingAndRunning) {
  const Pool one = pool(1);
  const auto running = one.parfeval(nap_task, {.value = 30});
  const auto pending = one.parfeval(nap_task, {.value = 30});
  pending.cancel();
  EXPECT_EQ(pending.state(), FutureState::cancelled);
  running.cancel();
  ASSERT_TRUE(running.wait(5s));
  EXPECT_EQ(running.state(), FutureState::cancelled);
  EXPECT_EQ(error_from([&] { running.get(); }).code(), ErrorCode::cancelled);
  EXPECT_EQ(error_from([&] { running.get(); }).message(), "the call was cancelled");
  EXPECT_EQ(one.parfeval(nap_task, {.value = 0}).get().value, 0);
}

TEST_P(AnyPool, LargeGroupsAreNotOvertaken) {
  const Pool two = pool(2);
  const auto nap = two.parfeval(nap_task, {.value = 0.3});
  const auto both = two.parfeval(place_task, {.value = 1}, {.workers = 2});
  const auto after = two.parfeval(nap_task, {.value = 0});
  EXPECT_FALSE(after.wait(50ms));
  EXPECT_EQ(nap.state(), FutureState::running);
  EXPECT_EQ(after.state(), FutureState::pending) << "though a worker is free";
  EXPECT_EQ(both.get().sum, 3);
  after.get();
}

TEST_P(AnyPool, AnotherSizeClosesAndReopens) {
  const Pool two = pool(2);
  EXPECT_TRUE(session_for(GetParam()).open_pool({.kind = GetParam(), .quiet = true}).is_open());
  EXPECT_EQ(session_for(GetParam()).current_pool()->size(), 2);
  EXPECT_EQ(session_for(GetParam()).open_pool().kind(), GetParam());
  EXPECT_TRUE(two.is_open()) << "nothing was asked for";
  const Pool three = pool(3);
  EXPECT_FALSE(two.is_open());
  EXPECT_EQ(three.size(), 3);
  EXPECT_THAT(error_from([&] { three.spmd(place_task, {}, {.workers = 4}); }).message(),
              HasSubstr("4 workers in a pool of 3"));
}

TEST_P(AnyPool, WhatTheCallerWritesAfterwardsIsNotInTheInput) {
  const Pool one = pool(1);
  const lockstep::test::TemporaryFolder folder;
  one.parfeval(await_task, {folder.path() / "go"});
  Everything input;
  input.values = at::ones({8});
  const auto echo = one.parfeval(echo_task, input);
  input.values.zero_();
  folder.write("go", "");
  EXPECT_EQ(echo.get().values.sum().item<double>(), 16);
}

TEST_P(AnyPool, WhatATaskWritesAfterwardsIsNotInTheResult) {
  const Pool one = pool(1);
  const Part first = one.parfeval(add_one_task).get();
  const double sum = first.values.sum().item<double>();
  const Part second = one.parfeval(add_one_task).get();
  EXPECT_EQ(second.values.sum().item<double>(), sum + 2);
  EXPECT_EQ(first.values.sum().item<double>(), sum);
}

TEST(Pools, ThreadsAndProcessesGiveTheSameBits) {
  std::vector<double> sums;
  for (const PoolKind kind : {PoolKind::threads, PoolKind::processes}) {
    for (const Number& number : open(kind, 3).spmd(weights_task, {.value = 5})) sums.push_back(number.value);
  }
  ASSERT_EQ(sums.size(), 6U);
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(sums[rank], sums[rank + 3]);
}

}  // namespace
}  // namespace lockstep::pool
