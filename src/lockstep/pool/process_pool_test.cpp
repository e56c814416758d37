// What only pools of processes can do: workers that die, hang, or do not listen.
#include <csignal>
#include "lockstep/base/host.h"
#include "lockstep/pool/internal/channel.h"
#include "lockstep/pool/test_tasks.h"

namespace lockstep::pool {
namespace {

TEST(Processes, RefuseLambdas) {
  const Error error = error_from([] { open(PoolKind::processes, 2).spmd([](Worker&) {}); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_option);
  EXPECT_THAT(error.message(), HasSubstr("cannot run a lambda"));
}

TEST(Processes, NeedRun) {
  Session plain;
  EXPECT_THAT(error_from([&] {
                plain.open_pool({.kind = PoolKind::processes, .workers = 1, .quiet = true});
              }).message(),
              HasSubstr("whose main is run("));
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
  const auto future =
      pool.parfeval(circle_task, {.what = collective}, {.workers = pool.size(), .queue = queue});
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
  EXPECT_EQ(loss.error.message(),
            "worker process " + std::to_string(loss.process) + " on " + host_name() + " " + how);
  EXPECT_THAT(loss.error.context(), testing::Contains("in circle, rank 1 of 3"));
}

// Repeated by --gtest_repeat.
TEST(Processes, AKilledWorkerIsNamedInEveryCollective) {
  const Pool three = open(PoolKind::processes, 3);
  for (const char* collective : kCollectives) {
    expect_named(lose(three, collective, SIGKILL), "was killed by signal 9 (Killed)");
    EXPECT_EQ(three.spmd(place_task, {.value = 1}).back().sum, 6) << "after " << collective;
  }
}

// All at once, for each takes seconds to be noticed: a group of two for each, which loses rank 1.
TEST(Processes, AStoppedWorkerIsNamedInEveryCollective) {
  constexpr size_t groups = kCollectives.size();
  const Pool all = open(PoolKind::processes, 2 * groups);
  std::atomic<int> started = 0;
  const DataQueue<Note> queue([&](const Note&) { ++started; });
  std::vector<Future<void>> futures;
  for (const char* collective : kCollectives)
    futures.push_back(all.parfeval(circle_task, {.what = collective}, {.workers = 2, .queue = queue}));
  while (started < static_cast<int>(groups)) std::this_thread::sleep_for(1ms);
  const auto workers = all.workers();
  const auto start = std::chrono::steady_clock::now();
  for (size_t group = 0; group < groups; ++group) ::kill(workers[2 * group + 1].process, SIGSTOP);
  for (size_t group = 0; group < groups; ++group) {
    ASSERT_TRUE(futures[group].wait(20s));
    EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
    const Error error = error_from([&] { futures[group].get(); });
    EXPECT_EQ(error.message(), "worker process " + std::to_string(workers[2 * group + 1].process) + " on " +
                                   host_name() + " said nothing for 3 s and was ended");
    EXPECT_THAT(error.context(), testing::Contains("in circle, rank 1 of 2"));
  }
  EXPECT_EQ(all.spmd(place_task, {.value = 1}).back().sum, groups * (2 * groups + 1));
}

// Each value wakes the client's thread, which must count the time between all the same.
TEST(Processes, AStoppedWorkerIsNamedWhileAnotherTalks) {
  const Pool two = open(PoolKind::processes, 2);
  std::atomic<int> values = 0;
  const DataQueue<Note> queue([&](const Note&) { ++values; });
  const auto talk = two.parfeval(talk_task, {.value = 1e9}, {.queue = queue});
  const auto nap = two.parfeval(nap_task, {.value = 60});
  while (values == 0) std::this_thread::sleep_for(1ms);
  ::kill(two.workers()[1].process, SIGSTOP);
  EXPECT_TRUE(nap.wait(5s));
  talk.cancel();
  EXPECT_THAT(error_from([&] { nap.get(); }).message(), HasSubstr("said nothing for 3 s"));
}

TEST(Processes, OpeningAgainReplacesAPoolThatLostAWorkerForGood) {
  const Pool one = open(PoolKind::processes, 1);
  ::kill(one.workers()[0].process, SIGKILL);
  std::optional<Error> error;
  for (pid_t last = 0; !error;) {
    const pid_t process = one.workers()[0].process;
    if (process != last) ::kill(process, SIGKILL);
    last = process;
    if (!one.is_whole()) error = error_from([&] { one.parfeval(nap_task, {.value = 0}).get(); });
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_THAT(error->message(), HasSubstr("too few workers"));
  EXPECT_TRUE(one.is_open());
  EXPECT_EQ(open(PoolKind::processes, 1).parfeval(square_task, {.value = 3}).get().value, 9);
}

TEST(Processes, AParforThatCannotBeginEndsWhatItHasBegun) {
  const Pool one = open(PoolKind::processes, 1);
  EXPECT_THAT(error_from([&] {
                one.parfor(await_task, {{.path = "/no such file"}, {.path = "\xff\xfe"}});
              }).message(),
              HasSubstr("not UTF-8"));
  EXPECT_TRUE(one.parfeval(square_task, {.value = 3}).wait(20s)) << "its worker still waits for the file";
}

TEST(Processes, HaveThePoolsEnvironmentForTheirLife) {
  const PoolOptions options{.kind = PoolKind::processes,
                            .workers = 2,
                            .quiet = true,
                            .environment = {"LOCKSTEP_TEST_MOOD=calm = good", "PATH="}};
  const Pool two = session->open_pool(options);
  const auto expect_set = [&] {
    EXPECT_EQ(two.parfeval(variable_task, {.value = "LOCKSTEP_TEST_MOOD"}).get().value, "calm = good");
    EXPECT_EQ(two.parfeval(variable_task, {.value = "PATH"}).get().value, "");
    EXPECT_EQ(two.parfeval(variable_task, {.value = "HOME"}).get().value, std::getenv("HOME"));
  };
  expect_set();
  error_from([&] { two.spmd(die_task, {.what = "exit", .rank = 0}); });
  expect_set();
  EXPECT_TRUE(session->open_pool({.kind = PoolKind::processes, .workers = 2, .quiet = true}).is_open());
  EXPECT_TRUE(two.is_open()) << "nothing else was asked for";
  EXPECT_EQ(open(PoolKind::processes, 1).parfeval(variable_task, {.value = "LOCKSTEP_TEST_MOOD"}).get().value,
            "not set");
  EXPECT_FALSE(two.is_open());
}

TEST(Processes, AnEnvironmentThatCannotBeIsRefused) {
  EXPECT_THAT(error_from([] {
                session->open_pool(
                    {.kind = PoolKind::processes, .workers = 1, .quiet = true, .environment = {"=calm"}});
              }).message(),
              HasSubstr("\"=calm\""));
  EXPECT_THAT(error_from([] {
                session->open_pool(
                    {.kind = PoolKind::threads, .workers = 1, .quiet = true, .environment = {"MOOD=calm"}});
              }).message(),
              HasSubstr("a pool of threads cannot have an environment"));
}

TEST(Processes, TimesAndCountsAreWithinLimits) {
  const auto refusal = [](PoolOptions options) {
    options.kind = PoolKind::processes;
    options.quiet = true;
    return error_from([&] { session->open_pool(options); });
  };
  for (const auto time : {std::chrono::milliseconds::max(), std::chrono::milliseconds(int64_t{1} << 62)}) {
    EXPECT_THAT(refusal({.workers = 1, .silence = time}).message(),
                HasSubstr("a pool's silence cannot be " + std::to_string(time.count()) + " ms"));
    EXPECT_THAT(refusal({.workers = 1, .start_time = time}).message(),
                HasSubstr("a pool's start_time cannot be " + std::to_string(time.count()) + " ms"));
    EXPECT_EQ(refusal({.workers = time.count()}).code(), ErrorCode::invalid_option);
  }
  EXPECT_THAT(refusal({.workers = 1, .start_time = 0ms}).hint(), HasSubstr("at most a year"));
  EXPECT_THAT(refusal({.workers = -1}).message(), HasSubstr("-1 workers"));
}

TEST(Processes, LastWordsAreKept) {
  const Error error =
      error_from([] { open(PoolKind::processes, 2).spmd(die_task, {.what = "abort", .rank = 1}); });
  EXPECT_THAT(error.message(), HasSubstr("was killed by signal 6 (Aborted)"));
  EXPECT_THAT(error.context(), testing::Contains("its last output: first words | the sky is falling"));
  EXPECT_THAT(
      error_from([] { open(PoolKind::processes, 2).spmd(die_task, {.what = "exit", .rank = 0}); }).message(),
      HasSubstr("ended with status 3"));
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
  EXPECT_THAT(error_from([&] { one.parfeval(fail_task, {.what = "\xff\xfe"}); }).message(),
              HasSubstr("not UTF-8"));
  const auto pending = one.parfeval(nap_task, {.value = 0});
  EXPECT_THAT(error_from([&] { pending.say("\xff\xfe"); }).message(), HasSubstr("not UTF-8"));
  EXPECT_EQ(pending.get().value, 0);
}

TEST(Processes, LongWordsAreSaidBeforeACallBeginsOrRefused) {
  const Pool one = open(PoolKind::processes, 1);
  const auto nap = one.parfeval(nap_task, {.value = 30});
  const auto pending = one.parfeval(listen_task);
  const std::string half(kMostHeaderBytes / 2 + 1, 'x');
  for (const std::string& word : {half, std::string("end"), half}) pending.say(word);
  EXPECT_THAT(error_from([&] { pending.say(std::string(kMostHeaderBytes - 16, 'x')); }).message(),
              HasSubstr("too large"));
  nap.cancel();
  const Heard heard = pending.get();
  ASSERT_EQ(heard.words.size(), 1U);
  EXPECT_EQ(heard.words.front().size(), half.size());
}

TEST(Processes, ALongTaskIsNotTakenForDead) {
  session->close_pool();
  const Pool one =
      session->open_pool({.kind = PoolKind::processes, .workers = 1, .quiet = true, .silence = 1000ms});
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

TEST(Processes, TheProfileLocalIsThisMachine) {
  const Pool two = open(PoolKind::processes, 2);
  EXPECT_TRUE(two.is_on_this_machine());
  session->open_pool({.profile = "local", .quiet = true});
  EXPECT_TRUE(two.is_open()) << "nothing else was asked for";
  const Error error = error_from([] { session->open_pool({.profile = "nowhere", .quiet = true}); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_THAT(error.message(), HasSubstr("nowhere"));
  EXPECT_TRUE(two.is_open()) << "it is kept when another one cannot be opened";
}

}  // namespace
}  // namespace lockstep::pool
