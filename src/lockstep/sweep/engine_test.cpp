// Sweeps whose trials are processes of a program that leaves the record of a training, but trains nothing.
#include "lockstep/sweep/engine.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <thread>

#include <gmock/gmock.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/jobs/job_lock.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/requests.h"
#include "lockstep/record/result.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/sweep/internal/claims.h"
#include "lockstep/sweep/internal/history.h"
#include "lockstep/sweep/internal/sweep_requests.h"

namespace lockstep::sweep {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// In place of lockstep: six steps, or as far as --pause-after-step says. The accuracy of a trial is the line
// with its number in `accuracies`. In `asked` are trials that wait at their rung until a request is there,
// which they do not read; in `slow` those that take long.
constexpr const char* kProgram = R"(#!/bin/sh
here=$(dirname "$0")
until=6
while test $# -gt 0; do
  case $1 in
    --output) run=$2 ;;
    --pause-after-step) until=$2 ;;
  esac
  shift
done
grep -qx "$LOCKSTEP_TRIAL" "$here/slow" && touch "$here/sleeps" && exec sleep 60
mkdir -p "$run/events"
attempt=$(ls "$run/events" | wc -l)
accuracy=$(sed -n "$((LOCKSTEP_TRIAL + 1))p" "$here/accuracies")
if test "$until" -lt 6; then reason=stopped; else reason=finished; touch "$run/model.safetensors"; fi
while grep -qx "$LOCKSTEP_TRIAL" "$here/asked" && ! ls "$run"/requests/*.json; do sleep 0.05; done
event() {
  echo "{\"kind\": \"$1\", \"step\": $2, \"epoch\": 1, \"time\": 1, \"attempt\": $attempt, \"values\": {$3}}"
}
{
  event plan 0 '"total_steps": 6'
  event validation "$until" "\"accuracy\": $accuracy, \"loss\": 1, \"best\": true"
  event end "$until" "\"reason\": \"$reason\", \"seconds\": 1, \"best_accuracy\": $accuracy"
} > "$run/events/rank-0-attempt-$attempt.jsonl"
echo '{}' > "$run/options.json"
)";

class SweepEngine : public testing::Test {
 protected:
  SweepEngine() {
    program_ = folder_.write("lockstep", kProgram).string();
    fs::permissions(program_, fs::perms::owner_all);
    folder_.write("slow", "");
    folder_.write("asked", "");
  }

  // Trials one after the other. A trial ends at step 2 if five others are there and it is below their median.
  static SweepSpec spec() {
    SweepSpec spec{.command = {"train", "data"}};
    spec.space.add("learning-rate", "0.1..0.9");
    spec.options.search = SearchKind::random;
    spec.options.count = 7;
    spec.options.lag = 1;
    spec.options.trials = 1;
    spec.options.trials_as = TrialsAs::processes;
    spec.options.stop_rule = StopRule::median;
    spec.options.first_rung = 2;
    return spec;
  }

  SweepEnd run(const SweepSpec& spec) const {
    return run_sweep(paths_, spec, {.lockstep = program_, .moves_workers = false});
  }

  void wait_for(LogKind kind, int64_t trial) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const auto is_it = [&](const LogLine& line) { return line.kind == kind && line.trial == trial; };
    while (std::chrono::steady_clock::now() < end) {
      if (std::ranges::any_of(read_log(paths_), is_it)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "trial " << trial << " does not come so far";
  }

  test::TemporaryFolder folder_;
  SweepPaths paths_{folder_.path() / "sweep"};
  std::string program_;
};

// Many programs take a second signal as one that they must not save.
TEST_F(SweepEngine, AProgramThatTakesLongToEndIsAskedOnce) {
  const std::string begun = (folder_.path() / "begun").string(), signals = folder_.path() / "signals";
  SweepSpec program = spec();
  program.command = {"sh", "-c",
                     "trap 'echo TERM >> " + signals + "' TERM; echo result 1; touch " + begun +
                         "; until test -e " + signals +
                         "; do sleep 0.05; done; for i in 1 2 3 4; do sleep 0.4; done",
                     "{learning-rate}"};
  program.options = {.count = 1};
  const std::jthread person([&] {
    while (!fs::exists(begun)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ask_to_stop(paths_, 0);
  });
  EXPECT_TRUE(run_sweep(paths_, program, {}).is_complete);
  EXPECT_EQ(read_file(signals, 1 << 20), "TERM\n");
  EXPECT_EQ(read_table(paths_).rows[0].state, TrialState::stopped);
}

// The program that was asked had come to its end.
TEST_F(SweepEngine, ATrialThatWasToStartAgainDoesSoWhenTheSweepGoesOn) {
  SweepSpec program = spec();
  program.command = {"echo", "result", "{learning-rate}"};
  program.options = {.count = 2};
  run_sweep(paths_, program, {});
  {
    const auto lock = jobs::FileLock::try_take(paths_.lock());
    EXPECT_FALSE(restart_now_or_ask(paths_, 0));
  }
  EXPECT_TRUE(run_sweep(paths_, program, {}).is_complete);
  const std::vector<LogLine> lines = read_log(paths_);
  EXPECT_EQ(std::ranges::count_if(
                lines, [](const LogLine& line) { return line.kind == LogKind::begin && line.trial == 0; }),
            2);
  EXPECT_TRUE(requests_in(paths_).empty());
}

// Another program would remove it before it has its name, and the one that asks would fail.
TEST_F(SweepEngine, ARequestThatIsBeingWrittenIsNotTaken) {
  make_folders(paths_.requests());
  write_file_atomic(paths_.requests() / "ask-1234.part", "stop 4\n");
  EXPECT_TRUE(requests_in(paths_).empty());
  write_file_atomic(paths_.requests() / "ask-1234", "stop 4\n");
  ASSERT_EQ(requests_in(paths_).size(), 1u);
  EXPECT_EQ(requests_in(paths_)[0].trial, 4);
}

// It pauses before it reads the request; it must not go on with the search.
TEST_F(SweepEngine, ATrialThatIsStoppedWhileItEndsItsRungIsStopped) {
  folder_.write("accuracies", "0.5\n");
  folder_.write("asked", "0\n");
  SweepSpec one = spec();
  one.options.count = 1;
  std::jthread sweep([&] { EXPECT_TRUE(run(one).is_complete); });
  wait_for(LogKind::begin, 0);
  ask_to_stop(paths_, 0);
  sweep.join();
  const Table table = read_table(paths_);
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0].state, TrialState::stopped);
  EXPECT_EQ(table.rows[0].value, 0.5);
  EXPECT_EQ(table.rows[0].step, 2);
}

// By `lockstep stop`, of which the sweep knows nothing.
TEST_F(SweepEngine, ARequestThatATrialHasNotReadAtItsRungCounts) {
  folder_.write("accuracies", "0.5\n");
  folder_.write("asked", "0\n");
  SweepSpec one = spec();
  one.options.count = 1;
  std::jthread sweep([&] { EXPECT_TRUE(run(one).is_complete); });
  while (!fs::exists(record::RunPaths{paths_.trial(0)}.events()))
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  record::make_request(paths_.trial(0), {.request = record::RequestKind::stop});
  sweep.join();
  const Row row = read_table(paths_).rows.at(0);
  EXPECT_EQ(row.state, TrialState::stopped);
  EXPECT_EQ(row.value, 0.5);
  EXPECT_EQ(row.step, 2);
}

// Trial 0 waits at its rung, while trial 1 has the only place. It would go on if it is the better one.
TEST_F(SweepEngine, ATrialThatIsStoppedBetweenTwoRungsIsStoppedAtOnce) {
  folder_.write("asked", "1\n");
  SweepSpec two = spec();
  two.options.stop_rule = StopRule::asha;
  two.options.reduction = two.options.count = 2;
  for (const auto& [shared, accuracies] :
       {std::pair{false, "0.9\n0.5\n"}, {true, "0.9\n0.5\n"}, {false, "0.9\n0.95\n"}}) {
    fs::remove_all(paths_.folder);
    folder_.write("accuracies", accuracies);
    prepare_shared_sweep(paths_, two);
    std::jthread sweep([&, shared = shared] {
      EXPECT_TRUE(run_sweep(paths_, two, {.lockstep = program_, .shared = shared, .moves_workers = false})
                      .is_complete);
    });
    while (!fs::exists(record::RunPaths{paths_.trial(1)}.events()))
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ask_to_stop(paths_, 0);
    while (!requests_in(paths_).empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(read_table(paths_).rows.at(0).state, TrialState::stopped);
    record::make_request(paths_.trial(1), {.request = record::RequestKind::report});
    sweep.join();
    const Row row = read_table(paths_).rows.at(0);
    EXPECT_EQ(row.state, TrialState::stopped);
    EXPECT_EQ(row.value, 0.9);
    EXPECT_EQ(row.step, 2);
  }
}

// Trial 1 has come to its rung, and the search does not know it before trial 0 is there too.
TEST_F(SweepEngine, ATrialIsStoppedWhoseRungTheSearchDoesNotKnowYet) {
  folder_.write("asked", "0\n");
  SweepSpec two = spec();
  two.options.stop_rule = StopRule::asha;
  two.options.reduction = two.options.count = two.options.lag = two.options.trials = 2;
  for (const char* accuracies : {"0.9\n0.5\n", "0.9\n0.95\n"}) {
    fs::remove_all(paths_.folder);
    folder_.write("accuracies", accuracies);
    std::jthread sweep([&] { EXPECT_TRUE(run(two).is_complete); });
    wait_for(LogKind::outcome, 1);
    ask_to_stop(paths_, 1);
    while (!requests_in(paths_).empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(read_table(paths_).rows.at(1).state, TrialState::stopped);
    record::make_request(paths_.trial(0), {.request = record::RequestKind::report});
    sweep.join();
    EXPECT_EQ(read_table(paths_).rows.at(0).state, TrialState::ended);
    const Row row = read_table(paths_).rows.at(1);
    EXPECT_EQ(row.state, TrialState::stopped);
    EXPECT_EQ(row.step, 2);
  }
}

// What the run folder of trial 0 has when the sweep was killed: `request` was answered, and the attempt ended
// for `reason`, or was killed, too.
struct LeftRun {
  std::string request{}, reason{};
  bool is_open = false;  // a request that came after the attempt
};

TEST_F(SweepEngine, ATrialThatWasAskedToEndStaysStoppedWhenItsSweepIsKilled) {
  folder_.write("accuracies", "0.5\n");
  SweepSpec one = spec();
  one.options.count = 1;
  const auto row_after = [&](const LeftRun& left) {
    fs::remove_all(paths_.folder);
    record::EventLog log(paths_.trial(0), 0, 0);
    const auto write = [&](record::Event event) { log.write(event); };
    write(record::event_of(record::PlanOfRun{.total_steps = 6}));
    write(record::event_of(record::Validation{.loss = 0.25, .accuracy = 0.75, .best = true}, 1, 1));
    if (!left.request.empty()) write(record::event_of(record::Answer{.request = left.request}, 1, 1));
    if (!left.reason.empty()) write(record::event_of(record::End{.reason = left.reason}, 1, 1));
    if (left.reason == "request") record::write_result(paths_.trial(0), {.reason = left.reason, .steps = 1});
    write_file_atomic(record::RunPaths{paths_.trial(0)}.options(), "{}\n");
    if (left.is_open) record::make_request(paths_.trial(0), {.request = record::RequestKind::finish});
    EXPECT_TRUE(run(one).is_complete);
    return read_table(paths_).rows.at(0);
  };
  for (const LeftRun& left : {LeftRun{"stop", "stopped"}, LeftRun{"finish", "request"}, LeftRun{"stop", ""},
                              LeftRun{"", "stopped", true}, LeftRun{"", "", true}}) {
    const Row row = row_after(left);
    EXPECT_EQ(row.state, TrialState::stopped) << left.request << left.reason;
    EXPECT_EQ(row.value, 0.75);
    EXPECT_EQ(row.step, 1);
  }
  EXPECT_EQ(row_after({"checkpoint", "stopped"}).state, TrialState::ended);
}

// As a scheduler kills a whole job, for lack of memory.
TEST_F(SweepEngine, ATrialWhoseProgramIsKilledAgainAndAgainFails) {
  SweepSpec sleeps{.command = {"sh", "-c", "sleep 60", "name", "{x}"}};
  sleeps.space.add("x", "0.5..9.5");
  sleeps.options.count = 1;
  sleeps.options.retries = 0;
  sleeps.options.profile = "ours";
  prepare_shared_sweep(paths_, sleeps);
  for (int64_t kill = 1; kill <= kMostKills + 1; ++kill) {
    {
      Claims dies(paths_.claims());
      ASSERT_NE(dies.take({0, 0}), Claim::other);
    }
    std::stop_source stop;
    const auto stop_after_loss = [&](const Trial&, const std::string& note) {
      if (!note.empty()) stop.request_stop();
    };
    const SweepEnd end =
        run_sweep(paths_, sleeps, {.shared = true, .stop = stop.get_token(), .report = stop_after_loss});
    EXPECT_EQ(end.is_complete, kill > kMostKills);
  }
  const Row row = read_table(paths_).rows.at(0);
  EXPECT_EQ(row.state, TrialState::failed);
  EXPECT_THAT(row.error, HasSubstr("was killed, 11 times; if memory ran out, give each job more"));
}

// As a sweep goes on with other places: it tells first what it had found first.
TEST(History, KeepsTheOrderOfWhatTheSearchDoesNotKnow) {
  History history;
  for (const int64_t trial : {2, 0, 1, 2}) history.take({.kind = LogKind::outcome, .trial = trial});
  const auto first = [&] {
    return history.first_untold([](const Segment& one) { return one.trial != 1; })
        .value_or(Segment{-1})
        .trial;
  };
  EXPECT_EQ(first(), 2);
  history.tell({2, 0});
  EXPECT_EQ(first(), 0);
  history.begin_anew(0);
  EXPECT_EQ(first(), -1);
  EXPECT_TRUE(history.known.contains({1, 0}));
  EXPECT_TRUE(history.known.contains({2, 0}));
  EXPECT_FALSE(history.known.contains({0, 0}));
}

TEST(History, CountsKillsSinceATrialWasFurther) {
  History history;
  const auto kills_after = [&](int64_t step) {
    history.take({.kind = LogKind::lost, .trial = 3, .step = step, .text = kProgramKilled});
    return history.losses_for(kProgramKilled, 3);
  };
  EXPECT_EQ(kills_after(0), 1);
  EXPECT_EQ(kills_after(0), 2);
  EXPECT_EQ(kills_after(250), 1);
  EXPECT_EQ(kills_after(250), 2);
  EXPECT_EQ(kills_after(240), 3);
  EXPECT_EQ(kills_after(300), 1);
  EXPECT_EQ(history.losses_for("memory ran out", 3), 0);
}

// Trial 5 ends early, and goes on when trial 4 has another result.
TEST_F(SweepEngine, ATrialThatGoesOnAfterARestartOfAnotherKeepsNoWeightsBeyondTheBest) {
  folder_.write("accuracies", "0.5\n0.6\n0.7\n0.8\n0.9\n0.65\n0.3\n");
  folder_.write("slow", "6\n");
  SweepSpec keeps_one = spec();
  keeps_one.options.keep_weights = 1;
  std::jthread sweep([&] { EXPECT_TRUE(run(keeps_one).is_complete); });
  wait_for(LogKind::begin, 6);
  while (!fs::exists(folder_.path() / "sleeps")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(read_table(paths_).rows[5].state, TrialState::early);
  folder_.write("accuracies", "0.5\n0.6\n0.7\n0.8\n0.1\n0.65\n0.3\n");
  folder_.write("slow", "");
  EXPECT_FALSE(restart_now_or_ask(paths_, 4));
  sweep.join();
  const Table table = read_table(paths_);
  ASSERT_EQ(table.rows.size(), 7u);
  EXPECT_EQ(table.rows[4].value, 0.1);
  EXPECT_EQ(table.rows[5].state, TrialState::ended);
  EXPECT_FALSE(fs::exists(record::RunPaths{paths_.trial(5)}.weights()));
}

TEST_F(SweepEngine, MoreJobsForASweepLeaveTheTrialsOfOthersAlone) {
  SweepSpec spec{.command = {"true"}};
  spec.space.add("x", "0.5..9.5");
  prepare_shared_sweep(paths_, spec);
  make_folders(paths_.trial(3));
  {
    make_folders(paths_.runners());
    const auto other = jobs::FileLock::take(paths_.runners() / "other");
    make_request(paths_, {.what = "restart", .trial = 3});
    ask_to_stop(paths_);
    prepare_shared_sweep(paths_, spec);
    ASSERT_EQ(requests_in(paths_).size(), 1u);
    EXPECT_EQ(requests_in(paths_)[0].trial, 3);
    EXPECT_TRUE(fs::exists(paths_.trial(3)));
  }
  prepare_shared_sweep(paths_, spec);
  EXPECT_TRUE(requests_in(paths_).empty());
  EXPECT_FALSE(fs::exists(paths_.trial(3)));
}

// Whether they work on it together or one after the other.
TEST_F(SweepEngine, RetriesCountInAllProgramsOfASweep) {
  SweepSpec killed{.command = {"sh", "-c", "kill -9 $$", "name", "{x}"}};
  killed.space.add("x", "0.5..9.5");
  killed.options.count = 1;
  killed.options.retries = 1;
  for (const bool shared : {false, true}) {
    const SweepPaths paths{folder_.path() / (shared ? "shared" : "alone")};
    prepare_shared_sweep(paths, killed);
    std::stop_source stop;
    const auto stop_after_loss = [&](const Trial&, const std::string& note) {
      if (!note.empty()) stop.request_stop();
    };
    EXPECT_FALSE(
        run_sweep(paths, killed, {.shared = shared, .stop = stop.get_token(), .report = stop_after_loss})
            .is_complete);
    EXPECT_TRUE(run_sweep(paths, killed, {.shared = shared}).is_complete);
    const std::vector<LogLine> lines = read_log(paths);
    EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                            [](const LogLine& line) { return line.kind == LogKind::lost; }),
              2);
    EXPECT_THAT(read_table(paths).rows[0].error, HasSubstr("2 times; if memory ran out, train fewer trials"));
  }
}

}  // namespace
}  // namespace lockstep::sweep
