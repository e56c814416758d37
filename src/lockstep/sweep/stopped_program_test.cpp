// A person stops a trial of another program than train that waits for its next attempt.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <stop_token>
#include <thread>

#include <gmock/gmock.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/sweep/engine.h"
#include "lockstep/sweep/internal/history.h"
#include "lockstep/sweep/internal/sweep_requests.h"

namespace lockstep::sweep {
namespace {

namespace fs = std::filesystem;

void wait_for(const fs::path& file) {
  while (!fs::exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// Random trials of a shell script.
SweepSpec two_at_a_time(int64_t count, const std::string& script) {
  SweepSpec spec{.command = {"sh", "-c", script, "{x}"}};
  spec.space.add("x", "0.5..9.5");
  spec.options = {.search = SearchKind::random, .count = count, .trials = 2};
  return spec;
}

// Stops trial 1 while the sweep goes on.
void expect_stopped_with_a_quarter(const SweepPaths& paths) {
  ask_to_stop(paths, 1);
  while (!requests_in(paths).empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const Row row = read_table(paths).rows.at(1);
  EXPECT_EQ(row.state, TrialState::stopped);
  EXPECT_EQ(row.value, 0.25);
}

// Both trials are cut short when the sweep stops. Trial 0 has the only place when it goes on.
TEST(StoppedProgram, IsStoppedAtOnceWithWhatItHadPrintedWhereverItWaits) {
  for (const bool shared : {false, true}) {
    const test::TemporaryFolder folder;
    const std::string go = folder.path() / "go", begun = folder.path() / "begun-";
    const SweepPaths paths{folder.path() / "sweep"};
    SweepSpec spec = two_at_a_time(2, "echo result 0.25; touch " + begun + "$LOCKSTEP_TRIAL; until test -e " +
                                          go + "; do sleep 0.05; done");
    std::stop_source stop;
    const std::jthread person([&] {
      wait_for(begun + "0");
      wait_for(begun + "1");
      stop.request_stop();
    });
    EXPECT_FALSE(run_sweep(paths, spec, {.stop = stop.get_token()}).is_complete);
    fs::remove(begun + "0");
    spec.options.trials = 1;
    prepare_shared_sweep(paths, spec);
    std::jthread sweep([&] { EXPECT_TRUE(run_sweep(paths, spec, {.shared = shared}).is_complete); });
    wait_for(begun + "0");
    expect_stopped_with_a_quarter(paths);
    write_file_atomic(go, "");
    sweep.join();
    EXPECT_EQ(read_table(paths).rows.at(0).state, TrialState::ended);
    EXPECT_EQ(read_table(paths).rows.at(1).state, TrialState::stopped);
  }
}

// Trial 1 is lost at once, and trial 0 has the only place when the sweep goes on. The beginning and the end
// of the output are kept.
TEST(StoppedProgram, HasWhatALostAttemptHadPrintedInTheMiddleOfALongOutput) {
  const test::TemporaryFolder folder;
  const std::string go = folder.path() / "go", begun = folder.path() / "begun";
  const SweepPaths paths{folder.path() / "sweep"};
  SweepSpec spec = two_at_a_time(
      2, "if test $LOCKSTEP_TRIAL = 1; then until test -e " + begun +
             "; do sleep 0.05; done; echo result 0.5; yes abcdefg | head -c 3000000; echo result "
             "0.25; yes abcdefg | head -c 3000000; kill -9 $$; fi; touch " +
             begun + "; until test -e " + go + "; do sleep 0.05; done; echo result 1");
  std::stop_source stop;
  const auto report = [&](const Trial&, const std::string& note) {
    if (!note.empty()) stop.request_stop();
  };
  EXPECT_FALSE(run_sweep(paths, spec, {.stop = stop.get_token(), .report = report}).is_complete);
  const std::vector<LogLine> lines = read_log(paths);
  EXPECT_EQ(std::ranges::find(lines, LogKind::lost, &LogLine::kind)->value, 0.25);
  fs::remove(begun);
  spec.options.trials = 1;
  std::jthread sweep([&] { EXPECT_TRUE(run_sweep(paths, spec, {}).is_complete); });
  wait_for(begun);
  expect_stopped_with_a_quarter(paths);
  write_file_atomic(go, "");
  sweep.join();
}

// Trial 0 starts again, and trial 1 goes on beside it.
TEST(StoppedProgram, WaitsInTheTableWhileATrialThatWasRestartedHasItsPlace) {
  const test::TemporaryFolder folder;
  const std::string go = folder.path() / "go", again = folder.path() / "again";
  const SweepPaths paths{folder.path() / "sweep"};
  SweepSpec spec = two_at_a_time(3, "test $LOCKSTEP_TRIAL = 0 && ! test -e " + again + " || until test -e " +
                                        go + "; do sleep 0.05; done; echo result 1");
  std::jthread sweep([&] { EXPECT_TRUE(run_sweep(paths, spec, {}).is_complete); });
  const auto wait_for_begins = [&](int64_t trial, int64_t wanted) {
    const auto is_one = [&](const LogLine& line) {
      return line.kind == LogKind::begin && line.trial == trial;
    };
    while (std::ranges::count_if(read_log(paths), is_one) < wanted)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  wait_for_begins(2, 1);
  write_file_atomic(again, "");
  EXPECT_FALSE(restart_now_or_ask(paths, 0));
  wait_for_begins(0, 2);
  wait_for_begins(1, 2);
  const Table table = read_table(paths);
  EXPECT_EQ(table.rows.at(0).state, TrialState::running);
  EXPECT_EQ(table.rows.at(1).state, TrialState::running);
  EXPECT_EQ(table.rows.at(2).state, TrialState::waiting);
  write_file_atomic(go, "");
  sweep.join();
  for (const Row& row : read_table(paths).rows) EXPECT_EQ(row.state, TrialState::ended) << row.trial;
}

TEST(History, KnowsWhatTheNewestAttemptHadPrintedWhenItWasLost) {
  History history;
  history.take({.kind = LogKind::begin, .trial = 3});
  history.take({.kind = LogKind::lost, .trial = 3, .value = 0.5, .text = "the trial was killed"});
  history.take({.kind = LogKind::lost, .trial = 3, .text = kProgramKilled});
  EXPECT_EQ(history.printed.at(3), 0.5) << "the second is of a program that was killed before it let go";
  history.take({.kind = LogKind::begin, .trial = 3});
  EXPECT_TRUE(history.printed.empty()) << "its output is another one";
}

}  // namespace
}  // namespace lockstep::sweep
