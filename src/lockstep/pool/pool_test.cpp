// The same tests over pools of threads and of processes, then what only one of them can do. main is at the end: this program is its own worker.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <torch/utils.h>

#include "lockstep/device/random_scope.h"
#include "lockstep/pool/run.h"

namespace lockstep::pool {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

Session* session = nullptr;

enum class Mood { calm, wild };
constexpr std::array<const char*, 2> enum_names(Mood) { return {"calm", "wild"}; }

struct Part {
  int64_t number = 0;
  at::Tensor values{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("number", self.number, "");
    field("values", self.values, "");
  };
};

struct Everything {
  bool flag = false;
  int64_t count = 0;
  double number = 0;
  std::string text{};
  Mood mood = Mood::calm;
  std::vector<int64_t> counts{};
  std::vector<double> numbers{};
  std::vector<std::string> texts{};
  at::Tensor values{};
  at::Tensor nothing{};
  Part part{};
  std::vector<Part> parts{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("flag", self.flag, "");
    field("count", self.count, "");
    field("number", self.number, "");
    field("text", self.text, "");
    field("mood", self.mood, "");
    field("counts", self.counts, "");
    field("numbers", self.numbers, "");
    field("texts", self.texts, "");
    field("values", self.values, "");
    field("nothing", self.nothing, "");
    field("part", self.part, "");
    field("parts", self.parts, "");
  };
};

struct Number {
  double value = 0;
  static constexpr auto describe = [](auto& self, auto&& field) { field("value", self.value, ""); };
};

struct Place {
  int64_t rank = 0;
  int64_t size = 0;
  double sum = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("rank", self.rank, "");
    field("size", self.size, "");
    field("sum", self.sum, "");
  };
};

struct Note {
  int64_t rank = 0;
  int64_t index = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("rank", self.rank, "");
    field("index", self.index, "");
  };
};

struct Fate {
  std::string what{};
  int64_t rank = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("what", self.what, "");
    field("rank", self.rank, "");
  };
};

Everything echo(Worker&, const Everything& input) {
  Everything result = input;
  if (result.values.defined()) result.values = result.values * 2;
  return result;
}

Place place(Worker& worker, const Number& input) {
  return {worker.rank(), worker.size(), worker.comm().all_reduce(input.value * static_cast<double>(worker.rank() + 1), comm::Reduction::sum)};
}

Number square(Worker&, const Number& input) {
  std::this_thread::sleep_for(std::chrono::milliseconds(static_cast<int>(40 - 4 * input.value)));
  return {input.value * input.value};
}

Number nap(Worker& worker, const Number& seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds.value);
  while (std::chrono::steady_clock::now() < end) {
    if (worker.stop_token().stop_requested()) throw Error(ErrorCode::cancelled, "woken");
    std::this_thread::sleep_for(2ms);
  }
  return seconds;
}

// Does not look at its stop token.
Number sleep_tight(Worker&, const Number& seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds.value));
  return seconds;
}

void fail(Worker& worker, const Fate& fate) {
  if (worker.rank() == fate.rank) {
    if (fate.what == "error")
      throw with_context([] { return "while reading"; }, []() -> Error { return {ErrorCode::io, "the disk is gone", "buy another one"}; });
    if (fate.what == "exception") throw std::runtime_error("odd");
    if (fate.what == "torch") at::ones({2}) + at::ones({3});
  }
  worker.comm().barrier();
}

void talk(Worker& worker, const Number& count) {
  for (int64_t i = 0; i < static_cast<int64_t>(count.value); ++i) worker.send(Note{worker.rank(), i});
}

Number all_weights(Worker& worker, const Number& seed) {
  const device::RandomScope random(at::kCPU, static_cast<uint64_t>(seed.value + worker.rank()));  // the engine's own generator is one for all threads
  at::Tensor weights = at::randn({300, 7});
  for (int step = 0; step < 5; ++step) {
    const at::Tensor gradients = (weights * static_cast<double>(worker.rank() + 1)).sin();
    worker.comm().all_reduce({gradients}, comm::Reduction::mean);
    worker.comm().broadcast({weights}, step % worker.size());
    weights -= 0.1 * gradients;
  }
  return {weights.sum().item<double>()};
}

// Round and round in one collective until somebody ends it.
void circle(Worker& worker, const Fate& fate) {
  const at::Tensor large = at::ones({400'000});
  for (int round = 0; round < 1'000'000; ++round) {
    if (fate.what == "barrier") worker.comm().barrier();
    if (fate.what == "all_reduce") worker.comm().all_reduce({large}, comm::Reduction::mean);
    if (fate.what == "broadcast") worker.comm().broadcast({large}, round % worker.size());
    if (fate.what == "gather") worker.comm().gather(large, 0);
    if (fate.what == "cat") worker.comm().cat(large);
    if (worker.rank() == 0 && round == 2) worker.send(Note{});
  }
}

void die(Worker& worker, const Fate& fate) {
  if (worker.rank() != fate.rank) return worker.comm().barrier();
  std::fprintf(stderr, "first words\nthe sky is falling\n");
  if (fate.what == "abort") std::abort();
  if (fate.what == "exit") std::_Exit(3);
}

constexpr auto echo_task = task<echo>("echo");
constexpr auto place_task = task<place>("place");
constexpr auto square_task = task<square>("square");
constexpr auto nap_task = task<nap>("nap");
constexpr auto sleep_task = task<sleep_tight>("sleep_tight");
constexpr auto fail_task = task<fail>("fail");
constexpr auto talk_task = task<talk>("talk");
constexpr auto weights_task = task<all_weights>("all_weights");
constexpr auto circle_task = task<circle>("circle");
constexpr auto die_task = task<die>("die");

Pool open(PoolKind kind, int64_t workers) { return session->open_pool({.kind = kind, .workers = workers, .quiet = true}); }

Error error_from(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "nothing was thrown"};
}

class AnyPool : public testing::TestWithParam<PoolKind> {
 protected:
  Pool pool(int64_t workers = 2) { return open(GetParam(), workers); }
};
INSTANTIATE_TEST_SUITE_P(Kinds, AnyPool, testing::Values(PoolKind::threads, PoolKind::processes),
                         [](const auto& info) { return enum_names(info.param)[static_cast<size_t>(info.param)]; });

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
  const Pool two = pool();
  std::vector<Future<Everything>> futures{two.parfeval(echo_task, input), two.parfeval(echo_task, input), two.parfeval(echo_task, input)};
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

TEST_P(AnyPool, FuturesTellTheirState) {
  const Pool one = pool(1);
  const auto first = one.parfeval(nap_task, {.value = 0.2});
  const auto second = one.parfeval(nap_task, {.value = 0.0});
  EXPECT_EQ(first.state(), FutureState::running);
  EXPECT_EQ(second.state(), FutureState::pending);
  EXPECT_FALSE(second.wait(1ms));
  EXPECT_EQ(first.get().value, 0.2);
  EXPECT_TRUE(second.wait(10s));
  EXPECT_EQ(second.state(), FutureState::finished);
  EXPECT_FALSE(second.error().has_value());
  EXPECT_EQ(second.get().value, 0.0);
  EXPECT_EQ(second.get().value, 0.0);
}

TEST_P(AnyPool, ResultsInTheOrderOfFinishing) {
  const Pool three = pool(3);
  std::vector<Future<Number>> futures;
  for (const double seconds : {0.5, 0.01, 0.25}) futures.push_back(three.parfeval(nap_task, {.value = seconds}));
  EXPECT_EQ(error_from([&] { std::vector<Future<Number>> slow{futures[0]}; next_finished(slow, 10ms); }).code(), ErrorCode::timeout);
  std::vector<size_t> order;
  while (const auto next = next_finished(futures)) order.push_back(*next);
  EXPECT_THAT(order, ElementsAre(1, 2, 0));
  EXPECT_FALSE(next_finished(futures).has_value());
}

TEST_P(AnyPool, ErrorsTravelWithTheirCause) {
  const Error error = error_from([&] { pool(3).spmd(fail_task, {.what = "error", .rank = 1}); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_EQ(error.message(), "the disk is gone");
  EXPECT_EQ(error.hint(), "buy another one");
  EXPECT_THAT(error.context(), testing::Contains("in fail, rank 1 of 3"));
  EXPECT_EQ(error_from([&] { pool(3).spmd(fail_task, {.what = "exception", .rank = 2}); }).message(), "odd");
  EXPECT_THAT(error_from([&] { pool(3).spmd(fail_task, {.what = "torch", .rank = 0}); }).message(), HasSubstr("must match the size"));
  EXPECT_NO_THROW(pool(3).spmd(fail_task, {.what = "none"}));
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

TEST_P(AnyPool, CancelEndsCollectives) {
  const Pool two = pool();
  std::atomic<int> started = 0;
  const DataQueue<Note> queue([&](const Note&) { ++started; });
  const auto future = two.parfeval(circle_task, {.what = "all_reduce"}, {.workers = 2, .queue = queue});
  while (started == 0) std::this_thread::sleep_for(1ms);
  future.cancel();
  ASSERT_TRUE(future.wait(5s));
  EXPECT_EQ(future.state(), FutureState::cancelled);
}

TEST_P(AnyPool, LargeGroupsAreNotOvertaken) {
  const Pool two = pool();
  const auto nap = two.parfeval(nap_task, {.value = 0.3});
  const auto both = two.parfeval(place_task, {.value = 1}, {.workers = 2});
  const auto after = two.parfeval(nap_task, {.value = 0});
  EXPECT_FALSE(after.wait(50ms));
  EXPECT_EQ(nap.state(), FutureState::running);
  EXPECT_EQ(after.state(), FutureState::pending) << "though a worker is free";
  EXPECT_EQ(both.get().sum, 3);
  after.get();
}

TEST_P(AnyPool, QueueKeepsEachSendersOrderAndIsEmptyAtTheEnd) {
  std::vector<std::vector<int64_t>> got(3);
  const DataQueue<Note> queue({.capacity = 4}, [&](const Note& note) { got[static_cast<size_t>(note.rank)].push_back(note.index); });
  pool(3).spmd(talk_task, {.value = 200}, {.queue = queue});
  for (const auto& indices : got) {
    ASSERT_EQ(indices.size(), 200U);
    EXPECT_TRUE(std::is_sorted(indices.begin(), indices.end()));
  }
}

TEST_P(AnyPool, AFullQueueHoldsItsSendersBack) {
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

TEST_P(AnyPool, WhatTheHandlerThrowsFailsTheCall) {
  const DataQueue<Note> queue([](const Note& note) {
    if (note.index == 2) throw std::runtime_error("no more");
  });
  const Error error = error_from([&] { pool().spmd(talk_task, {.value = 5}, {.queue = queue}); });
  EXPECT_EQ(error.message(), "no more");
  EXPECT_THAT(error.context(), testing::Contains("in the handler of a DataQueue"));
  EXPECT_THAT(error_from([&] { pool().spmd(talk_task, {.value = 1}); }).message(), HasSubstr("no DataQueue"));
  const DataQueue<Number> other([](const Number&) {});
  EXPECT_THAT(error_from([&] { pool().spmd(talk_task, {.value = 1}, {.queue = other}); }).message(), HasSubstr("no field \"value\""));
}

TEST_P(AnyPool, ClosingEndsEverything) {
  const Pool two = pool();
  const auto running = two.parfeval(nap_task, {.value = 30});
  const auto group = two.parfeval(circle_task, {.what = "barrier"}, {.workers = 2});
  session->close_pool();
  EXPECT_EQ(running.state(), FutureState::cancelled);
  EXPECT_EQ(group.state(), FutureState::cancelled);
  EXPECT_EQ(running.error()->message(), "the pool was closed");
  EXPECT_FALSE(two.is_open());
  EXPECT_EQ(error_from([&] { two.parfeval(nap_task, {.value = 0}); }).message(), "the pool was closed");
  EXPECT_FALSE(session->current_pool().has_value());
}

TEST_P(AnyPool, AnotherSizeClosesAndReopens) {
  const Pool two = pool(2);
  EXPECT_TRUE(session->open_pool({.kind = GetParam(), .quiet = true}).is_open());
  EXPECT_EQ(session->current_pool()->size(), 2);
  const Pool three = pool(3);
  EXPECT_FALSE(two.is_open());
  EXPECT_EQ(three.size(), 3);
  EXPECT_THAT(error_from([&] { three.spmd(place_task, {}, {.workers = 4}); }).message(), HasSubstr("4 workers in a pool of 3"));
}

TEST(Pools, ThreadsAndProcessesGiveTheSameBits) {
  std::vector<double> sums;
  for (const PoolKind kind : {PoolKind::threads, PoolKind::processes}) {
    for (const Number& number : open(kind, 3).spmd(weights_task, {.value = 5})) sums.push_back(number.value);
  }
  ASSERT_EQ(sums.size(), 6U);
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_EQ(sums[rank], sums[rank + 3]);
}

TEST(Threads, TakeLambdas) {
  const Pool two = open(PoolKind::threads, 2);
  std::atomic<int> calls = 0;
  two.spmd([&](Worker& worker) { calls += static_cast<int>(worker.rank()) + 1; });
  EXPECT_EQ(calls, 3);
  EXPECT_THAT(two.spmd([](Worker& worker) { return std::to_string(worker.rank()); }), ElementsAre("0", "1"));
  EXPECT_THAT(two.parfor(std::vector<int>{3, 1, 2}, [](Worker&, int value) { return value * value; }), ElementsAre(9, 1, 4));
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

TEST(Processes, RefuseLambdas) {
  const Error error = error_from([] { open(PoolKind::processes, 2).spmd([](Worker&) {}); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_option);
  EXPECT_THAT(error.message(), HasSubstr("cannot run a lambda"));
}

TEST(Processes, NeedRun) {
  Session plain;
  EXPECT_THAT(error_from([&] { plain.open_pool({.kind = PoolKind::processes, .workers = 1, .quiet = true}); }).message(), HasSubstr("whose main is run("));
  EXPECT_EQ(plain.open_pool({.workers = 1, .quiet = true}).size(), 1);
}

// What became of a worker: the message that names it, and how long it took.
struct Loss {
  Error error{ErrorCode::internal, ""};
  double seconds = 0;
  pid_t process = 0;
};

Loss lose(const Pool& pool, const std::string& collective, int signal) {
  std::atomic<bool> started = false;
  const DataQueue<Note> queue([&](const Note&) { started = true; });
  const auto future = pool.parfeval(circle_task, {.what = collective}, {.workers = pool.size(), .queue = queue});
  while (!started && !future.done()) std::this_thread::sleep_for(1ms);
  const pid_t victim = pool.workers()[1].process;
  const auto start = std::chrono::steady_clock::now();
  ::kill(victim, signal);
  EXPECT_TRUE(future.wait(20s));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {error_from([&] { future.get(); }), seconds, victim};
}

void expect_named(const Loss& loss, const std::string& how) {
  EXPECT_LT(loss.seconds, 5.0);
  EXPECT_EQ(loss.error.code(), ErrorCode::communication);
  EXPECT_EQ(loss.error.message(), "worker process " + std::to_string(loss.process) + " " + how);
  EXPECT_THAT(loss.error.context(), testing::Contains("in circle, rank 1 of 3"));
}

// Repeated by --gtest_repeat.
TEST(Processes, AKilledWorkerIsNamedInEveryCollective) {
  const Pool three = open(PoolKind::processes, 3);
  for (const char* collective : {"barrier", "all_reduce", "broadcast", "gather", "cat"}) {
    expect_named(lose(three, collective, SIGKILL), "was killed by signal 9 (Killed)");
    EXPECT_EQ(three.spmd(place_task, {.value = 1}).back().sum, 6) << "after " << collective;
  }
}

// All at once, for each takes seconds to be noticed: five groups of two, of which each loses rank 1.
TEST(Processes, AStoppedWorkerIsNamedInEveryCollective) {
  const Pool ten = open(PoolKind::processes, 10);
  std::atomic<int> started = 0;
  const DataQueue<Note> queue([&](const Note&) { ++started; });
  std::vector<Future<void>> futures;
  for (const char* collective : {"barrier", "all_reduce", "broadcast", "gather", "cat"})
    futures.push_back(ten.parfeval(circle_task, {.what = collective}, {.workers = 2, .queue = queue}));
  while (started < 5) std::this_thread::sleep_for(1ms);
  const auto workers = ten.workers();
  const auto start = std::chrono::steady_clock::now();
  for (size_t group = 0; group < 5; ++group) ::kill(workers[2 * group + 1].process, SIGSTOP);
  for (size_t group = 0; group < 5; ++group) {
    ASSERT_TRUE(futures[group].wait(20s));
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
    const Error error = error_from([&] { futures[group].get(); });
    EXPECT_EQ(error.message(), "worker process " + std::to_string(workers[2 * group + 1].process) + " said nothing for 3.5 s and was ended");
    EXPECT_THAT(error.context(), testing::Contains("in circle, rank 1 of 2"));
  }
  EXPECT_EQ(ten.spmd(place_task, {.value = 1}).back().sum, 55);
}

TEST(Processes, LastWordsAreKept) {
  const Error error = error_from([] { open(PoolKind::processes, 2).spmd(die_task, {.what = "abort", .rank = 1}); });
  EXPECT_THAT(error.message(), HasSubstr("was killed by signal 6 (Aborted)"));
  EXPECT_THAT(error.context(), testing::Contains("its last words: first words | the sky is falling"));
  EXPECT_THAT(error_from([] { open(PoolKind::processes, 2).spmd(die_task, {.what = "exit", .rank = 0}); }).message(), HasSubstr("ended with status 3"));
}

TEST(Processes, ADiedWorkerDoesNotTakeOtherCallsWithIt) {
  const Pool two = open(PoolKind::processes, 2);
  const auto nap = two.parfeval(nap_task, {.value = 0.5});
  const auto death = two.parfeval(die_task, {.what = "exit", .rank = 0});
  const auto next = two.parfeval(nap_task, {.value = 0.1});
  EXPECT_EQ(error_from([&] { death.get(); }).code(), ErrorCode::communication);
  EXPECT_EQ(nap.get().value, 0.5);
  EXPECT_EQ(next.get().value, 0.1);
}

TEST(Processes, TextsThatAreNotUtf8AreRefused) {
  const Pool one = open(PoolKind::processes, 1);
  EXPECT_THAT(error_from([&] { one.parfeval(fail_task, {.what = "\xff\xfe"}); }).message(), HasSubstr("not UTF-8"));
  EXPECT_EQ(one.parfeval(nap_task, {.value = 0}).get().value, 0);
}

TEST(Processes, ALongTaskIsNotTakenForDead) {
  session->close_pool();
  const Pool one = session->open_pool({.kind = PoolKind::processes, .workers = 1, .quiet = true, .silence = 1000ms});
  EXPECT_EQ(one.parfeval(sleep_task, {.value = 2}).get().value, 2);
  session->close_pool();
}

TEST(Processes, ClosingEndsTasksThatDoNotListen) {
  const Pool one = open(PoolKind::processes, 1);
  const auto future = one.parfeval(sleep_task, {.value = 60});
  const pid_t process = one.workers()[0].process;
  std::this_thread::sleep_for(100ms);
  const auto start = std::chrono::steady_clock::now();
  session->close_pool();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 4s);
  EXPECT_EQ(::kill(process, 0), -1);
  EXPECT_EQ(future.state(), FutureState::cancelled);
}

}  // namespace
}  // namespace lockstep::pool

int main(int argc, char** argv) {
  using namespace lockstep::pool;
  return run(argc, argv, {echo_task, place_task, square_task, nap_task, sleep_task, fail_task, talk_task, weights_task, circle_task, die_task},
             [&](Session& own) {
               session = &own;
               testing::InitGoogleTest(&argc, argv);
               return RUN_ALL_TESTS();
             });
}
