#include "lockstep/sweep/sweep_folder.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/jobs/job_lock.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/event_log.h"
#include "lockstep/sweep/engine.h"
#include "lockstep/sweep/internal/history.h"
#include "lockstep/sweep/internal/sweep_requests.h"
#include "lockstep/sweep/internal/trial_result.h"

namespace lockstep::sweep {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class SweepFolder : public testing::Test {
 protected:
  SweepFolder() : paths_{fs::path(testing::TempDir()) / "lockstep-sweep-folder"} {
    fs::remove_all(paths_.folder);
    make_folders(paths_.folder);
    write_spec(paths_, program("echo result $1"));
  }
  ~SweepFolder() override { fs::remove_all(paths_.folder); }

  // A sweep of a program that gets a number as $1.
  static SweepSpec program(const std::string& script) {
    SweepSpec spec{.command = {"sh", "-c", script, "name", "{x}"}};
    spec.space.add("x", "0.5..9.5");
    spec.options.count = 14;
    spec.options.lag = 1;
    spec.options.trials = 2;
    return spec;
  }

  void append(const std::string& text) const { std::ofstream(paths_.log(), std::ios::app) << text; }

  // The assignments, states and results of all trials.
  std::vector<std::string> rows(const SweepPaths& paths) const {
    std::vector<std::string> rows;
    for (const Row& row : read_table(paths).rows)
      rows.push_back(text_of(row, "x") + " " + state_of(row) + " " + std::to_string(row.value.value_or(0)));
    return rows;
  }

  SweepPaths paths_;
};

TEST_F(SweepFolder, ATrialThatGoesOnFromARungRuns) {
  LogWriter log(paths_);
  log.write({.kind = LogKind::begin, .until = 30, .parameters = {"x=1"}});
  log.write({.kind = LogKind::outcome, .until = 30, .state = TrialState::waiting, .value = 0.5, .step = 30});
  const auto lock = jobs::FileLock::try_take(paths_.lock());
  EXPECT_EQ(read_table(paths_).rows[0].state, TrialState::waiting);
  log.write({.kind = LogKind::begin, .until = 90, .parameters = {"x=1"}});
  EXPECT_EQ(read_table(paths_).rows[0].state, TrialState::running);
}

TEST_F(SweepFolder, ATrialThatEndsEarlyAgainIsWhereTheSearchHasIt) {
  LogWriter log(paths_);
  History history;
  const auto take = [&](const LogLine& line) {
    log.write(line);
    history.take(line);
  };
  const LogLine rung{
      .kind = LogKind::outcome, .until = 30, .state = TrialState::waiting, .value = 0.5, .step = 30};
  take(rung);
  take({.kind = LogKind::early, .value = 0.5, .step = 30});
  EXPECT_TRUE(history.ended_early({.number = 0, .step = 30}));
  EXPECT_FALSE(history.ended_early({.number = 1, .step = 30}));
  take({.kind = LogKind::outcome, .until = 90, .state = TrialState::waiting, .value = 0.6, .step = 90});
  EXPECT_FALSE(history.ended_early({.number = 0, .step = 90}));
  EXPECT_EQ(read_table(paths_).rows[0].state, TrialState::waiting);
  take({.kind = LogKind::early, .value = 0.6, .step = 90});
  EXPECT_EQ(read_table(paths_).rows[0].state, TrialState::early);
  // Another search ends it at the first rung.
  EXPECT_FALSE(history.ended_early({.number = 0, .step = 30}));
  take({.kind = LogKind::early, .value = 0.5, .step = 30});
  const Table table = read_table(paths_);
  EXPECT_EQ(table.rows[0].value, 0.5);
  EXPECT_EQ(table.rows[0].step, 30);
  // Earlier versions did not write the step.
  history.take({.kind = LogKind::early});
  EXPECT_TRUE(history.ended_early({.number = 0, .step = 90}));
  history.take({.kind = LogKind::outcome, .trial = 1, .until = 90, .state = TrialState::stopped, .step = 30});
  EXPECT_TRUE(history.ended_early({.number = 1, .step = 30}));
  EXPECT_FALSE(history.ended_early({.number = 1, .step = 10}));
}

TEST_F(SweepFolder, ALogWithAnOutcomeThatCannotBeIsRefused) {
  const std::string fine = R"({"kind": "outcome", "trial": 0, "until": 30, "state": "waiting", "value": 1})";
  LogReader reader(paths_.log());
  append(fine + "\n");
  EXPECT_EQ(reader.read().size(), 1u);
  append(R"({"kind": "outcome", "trial": 1, "until": 0, "state": "waiting", "value": 1})"
         "\n");
  try {
    reader.read();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
    EXPECT_THAT(error.what(), HasSubstr("log.jsonl\" is damaged: line 2: the outcome \"waiting\" needs"));
    EXPECT_THAT(error.hint(), HasSubstr("delete that line"));
  }
  EXPECT_THROW(read_log(paths_), Error);
  fs::remove(paths_.log());
  for (const char* line : {R"({"kind": "outcome", "trial": 1, "until": 9, "state": "running"})",
                           R"({"kind": "outcome", "trial": -5, "until": 0, "state": "ended", "value": 3})",
                           R"({"kind": "outcome", "trial": 1, "state": "ended", "value": null})",
                           R"({"kind": "restart", "trial": -1})"}) {
    append(line + std::string("\n"));
    EXPECT_THROW(read_log(paths_), Error) << line;
    fs::remove(paths_.log());
  }
}

TEST_F(SweepFolder, ACommandThatIsNotUtf8IsRefused) {
  SweepSpec spec = program("echo result $1");
  spec.command.emplace_back("caf\xe9");
  EXPECT_THROW(write_spec(paths_, spec), Error);
  spec = program("echo result $1");
  spec.space.add("y", "a\xff,b");
  EXPECT_THROW(write_spec(paths_, spec), Error);
  EXPECT_EQ(read_spec(paths_).command.size(), 5u);
}

// Unless the words of the command or the file of --config say how often.
TEST_F(SweepFolder, ATrialIsValidatedAtTheFirstRung) {
  SweepSpec spec{.command = {"train", "data", "--config", "options.json"},
                 .working_folder = paths_.folder.string()};
  spec.options.stop_rule = StopRule::asha;
  spec.options.first_rung = 30;
  const auto is_added = [&](const char* options) {
    std::ofstream(paths_.folder / "options.json") << options;
    const std::vector<std::string> words = command_of(paths_, spec, 0, {});
    return std::find(words.begin(), words.end(), "--validate-every") != words.end();
  };
  EXPECT_TRUE(is_added(R"({"max-epochs": 2})"));
  EXPECT_TRUE(is_added("[]"));
  EXPECT_TRUE(is_added("{"));
  EXPECT_FALSE(is_added(R"({"validate-every": 10})"));
  spec.command = {"train", "data", "--validate-every=10"};
  EXPECT_EQ(command_of(paths_, spec, 0, {}), spec.command);
}

TEST_F(SweepFolder, AValueWithBracesIsNoPlace) {
  SweepSpec spec{.command = {"./simulate", "{a}{b}", "--c={c}", "{d}"}};
  EXPECT_EQ(command_of(paths_, spec, 0, {{"a", "{b}"}, {"b", "{parameters}"}, {"c", "1"}, {"e", "2"}}),
            (std::vector<std::string>{"./simulate", "{b}{parameters}", "--c=1", "{d}", "--e", "2"}));
  spec.command.emplace_back("{parameters}");
  const std::string file = fs::absolute(paths_.parameters(0)).string();
  EXPECT_EQ(command_of(paths_, spec, 0, {{"a", "1"}, {"e", "2"}}),
            (std::vector<std::string>{"./simulate", "1{b}", "--c={c}", "{d}", file}));
}

// A shell has this status when a program that it has started was killed, which is not its result.
TEST_F(SweepFolder, AProgramThatAShellSawKilledIsLost) {
  const auto outcome = [&](int status) {
    return result_of(paths_, program(""), {.end = {status << 8}}).outcome;
  };
  for (const int signal : {SIGKILL, SIGTERM}) EXPECT_FALSE(outcome(128 + signal)) << signal;
  for (const int status : {1, 127, 128, 255}) EXPECT_EQ(outcome(status)->state, TrialState::failed) << status;
  EXPECT_EQ(result_of(paths_, program(""), {.end = {137 << 8}}).lost,
            "a program of the trial was killed by signal 9 (Killed)");
}

TEST_F(SweepFolder, AResultIsFoundHoweverMuchOutputFollows) {
  make_folders(paths_.trial(0).parent_path());
  std::ofstream(paths_.output(0)) << "result 2\nresult 3\n" << std::string(6 << 20, 'a') << "\nend";
  const TrialResult result = result_of(paths_, program(""), {.end = {0}});
  ASSERT_TRUE(result.outcome);
  EXPECT_EQ(result.outcome->value, 3);
}

TEST_F(SweepFolder, AResultIsFoundAmongTheLinesOfAProgressBar) {
  make_folders(paths_.trial(0).parent_path());
  std::ofstream output(paths_.output(0));
  output << "result 2\n";
  for (int step = 0; step < 20000; ++step) output << "step " << step << "\r";
  output << "result 4\rend";
  output.close();
  const TrialResult result = result_of(paths_, program(""), {.end = {0}});
  ASSERT_TRUE(result.outcome);
  EXPECT_EQ(result.outcome->value, 4);
}

TEST_F(SweepFolder, ATrainingThatAPersonHasAskedToEndIsStopped) {
  SweepSpec spec = program("");
  spec.command = {"train", "data"};
  const auto write_attempt = [&](int64_t attempt, const std::string& request) {
    record::EventLog log(paths_.trial(0), 0, attempt);
    const auto write = [&](record::Event event) { log.write(event); };
    write(record::event_of(record::PlanOfRun{.total_steps = 20}));
    write(record::event_of(record::Validation{.loss = 0.25, .accuracy = 0.75, .best = true}, 10, 1));
    if (!request.empty()) write(record::event_of(record::Answer{.request = request}, 10, 1));
    write(record::event_of(record::End{.reason = "stopped"}, 10, 1));
  };
  const auto outcome = [&](int64_t until, const std::string& request) {
    fs::remove_all(paths_.trial(0));
    write_attempt(0, request);
    return result_of(paths_, spec, {.segment = {0, until}, .end = {0}}).outcome;
  };
  for (const int64_t until : {0, 10, 20}) {
    for (const char* request : {"stop", "finish"}) {
      ASSERT_TRUE(outcome(until, request)) << until << request;
      EXPECT_EQ(outcome(until, request)->state, TrialState::stopped);
      EXPECT_EQ(outcome(until, request)->value, 0.75);
    }
    for (const char* request : {"", "checkpoint"}) {
      const auto found = outcome(until, request);
      ASSERT_EQ(found.has_value(), until == 10) << until << request;
      EXPECT_TRUE(!found || found->state == TrialState::waiting);
    }
  }
  // An earlier attempt was asked, and not the one that came to the rung.
  outcome(10, "stop");
  write_attempt(1, "");
  EXPECT_EQ(result_of(paths_, spec, {.segment = {0, 10}, .end = {0}}).outcome->state, TrialState::waiting);
}

TEST_F(SweepFolder, ADamagedRequestAsksForNothing) {
  make_folders(paths_.requests());
  const auto ask = [&](const char* name, const char* text) {
    std::ofstream(paths_.requests() / name) << text;
  };
  ask("ask-1", "stop abc\n");
  ask("ask-2", "stop 1x\n");
  ask("ask-3", "restart \n");
  EXPECT_TRUE(requests_in(paths_).empty());
  ask("ask-4", "stop 2\n");
  ASSERT_EQ(requests_in(paths_).size(), 1u);
  EXPECT_EQ(requests_in(paths_)[0].trial, 2);
}

TEST(History, CountsHowOftenATrialWasLostByItsOwnDoing) {
  History history;
  history.take({.kind = LogKind::lost, .trial = 3, .text = "memory ran out"});
  history.take({.kind = LogKind::lost, .trial = 3, .text = kProgramKilled});
  history.take({.kind = LogKind::lost, .trial = 3, .text = "memory ran out"});
  EXPECT_EQ(history.losses[3], 2);
  history.take({.kind = LogKind::restart, .trial = 3});
  EXPECT_EQ(history.losses[3], 0);
}

TEST_F(SweepFolder, IncompleteLinesAreCutOff) {
  LogWriter log(paths_), other(paths_);
  log.write({.kind = LogKind::begin, .trial = 7, .parameters = {"x=1"}});
  append(R"({"kind": "outc)");  // its writer was killed
  other.write({.kind = LogKind::lost, .trial = 7});
  ASSERT_EQ(read_log(paths_).size(), 2u);
  EXPECT_EQ(read_log(paths_)[1].kind, LogKind::lost);
  annotate(paths_, 7, "one");
  std::ofstream(paths_.notes(), std::ios::app) << R"({"trial": 7, "te)";
  annotate(paths_, 7, "two");
  EXPECT_EQ(read_table(paths_).rows[0].note, "two");
}

TEST_F(SweepFolder, ARefusedProgramChangesNothing) {
  const std::string before = read_file(paths_.spec(), 1 << 20);
  SweepSpec more = program("echo result $1");
  more.options.count = 40;
  {
    const auto lock = jobs::FileLock::try_take(paths_.lock());
    EXPECT_THROW(run_sweep(paths_, more, {}), Error);
    EXPECT_THROW(prepare_shared_sweep(paths_, more), Error);
    EXPECT_EQ(read_file(paths_.spec(), 1 << 20), before);
  }
  prepare_shared_sweep(paths_, more);
  EXPECT_EQ(read_spec(paths_).options.count, 40);
}

TEST_F(SweepFolder, AFreeSweepGoesOnWithOtherPlaces) {
  SweepSpec spec = program("echo result $1");
  spec.options.free = true;
  std::vector<std::string> before;
  for (const auto& [trials, count] : {std::pair{4, 14}, std::pair{1, 16}, std::pair{6, 20}}) {
    spec.options.trials = trials;
    spec.options.count = count;
    EXPECT_TRUE(run_sweep(paths_, spec, {}).is_complete);
    std::vector<std::string> table = rows(paths_);
    ASSERT_EQ(table.size(), static_cast<size_t>(count));
    EXPECT_TRUE(std::equal(before.begin(), before.end(), table.begin()));
    before = std::move(table);
  }
}

TEST_F(SweepFolder, ATrialThatHasNotBegunIsNotRestarted) {
  LogWriter(paths_).write({.kind = LogKind::begin, .trial = 0, .parameters = {"x=1"}});
  const std::string before = read_file(paths_.log(), 1 << 20);
  for (const int64_t trial : {-1, 1}) {
    EXPECT_THROW(restart_now_or_ask(paths_, trial), Error);
    EXPECT_THROW(annotate(paths_, trial, "a note"), Error);
  }
  EXPECT_EQ(read_file(paths_.log(), 1 << 20), before);
  EXPECT_EQ(read_table(paths_).rows.size(), 1u);
}

// Later trials get other parameters because of the new result; each of them begins anew once, whichever of
// the programs comes first.
TEST_F(SweepFolder, ProgramsThatShareASweepBeginATrialAnewOnce) {
  const std::string there = (paths_.folder / "requests-there").string();
  const SweepSpec spec =
      program("test $LOCKSTEP_TRIAL != 2 || test -e " + there + " || exit 1; echo result $1");
  EXPECT_TRUE(run_sweep(paths_, spec, {}).is_complete);
  const std::vector<std::string> before = rows(paths_);
  std::ofstream{there};
  EXPECT_TRUE(restart_now_or_ask(paths_, 2));
  SweepSpec one_by_one = spec;
  one_by_one.options.trials = 1;
  std::vector<std::jthread> programs(4);
  for (std::jthread& thread : programs)
    thread = std::jthread([&] { EXPECT_TRUE(run_sweep(paths_, one_by_one, {.shared = true}).is_complete); });
  programs.clear();
  std::map<int64_t, int> restarts;
  for (const LogLine& line : read_log(paths_)) restarts[line.trial] += line.kind == LogKind::restart;
  EXPECT_GT(std::count_if(restarts.begin(), restarts.end(), [](const auto& one) { return one.second > 0; }),
            1);
  for (const auto& [trial, count] : restarts) EXPECT_LE(count, 1) << trial;

  const SweepPaths fresh{paths_.folder / "fresh"};
  EXPECT_TRUE(run_sweep(fresh, spec, {}).is_complete);
  EXPECT_NE(rows(fresh), before);
  EXPECT_EQ(rows(paths_), rows(fresh));
}

// As another build or processor does. Only trials that had begun before a restart may change by it.
TEST_F(SweepFolder, OtherParametersThanTheSearchGivesAreRefusedAlsoAfterARestart) {
  const SweepSpec spec = program("echo result $1");
  EXPECT_TRUE(run_sweep(paths_, spec, {}).is_complete);
  EXPECT_TRUE(restart_now_or_ask(paths_, 2));
  EXPECT_TRUE(run_sweep(paths_, spec, {}).is_complete);
  LogWriter(paths_).write({.kind = LogKind::begin, .trial = 2, .parameters = {"x=0.125"}});
  const size_t before = read_log(paths_).size();
  EXPECT_THROW(run_sweep(paths_, spec, {}), Error);
  const std::vector<LogLine> after = read_log(paths_);
  ASSERT_EQ(after.size(), before + 1);
  EXPECT_EQ(after.back().kind, LogKind::pause);  // nobody trains it
}

TEST_F(SweepFolder, ATrialWithoutARunFolderIsJudgedByItsError) {
  SweepSpec spec = program("");
  spec.command = {"train", "data"};
  make_folders(paths_.trial(0).parent_path());
  std::ofstream(paths_.output(0)) << "lockstep: the reason\n";
  const auto ended = [&](int status, const std::string& code) {
    return result_of(paths_, spec, {.end = {status << 8}, .code = code});
  };
  for (const auto& [status, code] :
       {std::pair{2, ""}, std::pair{2, "invalid_option"}, std::pair{1, "not_found"}}) {
    const TrialResult result = ended(status, code);
    ASSERT_TRUE(result.outcome) << code;
    EXPECT_EQ(result.outcome->state, TrialState::failed);
    EXPECT_EQ(result.outcome->error, "the reason");
  }
  for (const auto& [status, code] : {std::pair{1, "io"}, std::pair{1, "out_of_memory"}, std::pair{1, ""}}) {
    EXPECT_FALSE(ended(status, code).outcome) << code;
    EXPECT_EQ(ended(status, code).lost, "the reason");
  }
  EXPECT_EQ(result_of(paths_, spec, {.end = {9}}).lost, "the trial was killed by signal 9 (Killed)");
}

TEST(Space, FindsThePointOfAnAssignment) {
  Space space;
  space.add("rate", "0.001..0.1:log");
  space.add("size", "1..5");
  space.add("optimizer", "sgdm,adam");
  space.add("momentum", "0.5..0.9:when=optimizer=sgdm");
  const auto sampler = make_random_sampler(space, 1);
  for (int64_t trial = 0; trial < 20; ++trial) {
    const Point point = sampler->suggest(trial, {});
    const auto found = space.point_of(space.words_of(point));
    ASSERT_TRUE(found);
    EXPECT_EQ(space.words_of(*found), space.words_of(point));
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*found)[i], point[i]);
  }
  const std::vector<std::string> fine{"rate=0.01", "size=2", "optimizer=adam"};
  EXPECT_TRUE(space.point_of(fine));
  for (const char* other : {"momentum=0.6", "size=9", "size=x", "optimizer=sgd", "depth=1", "size"}) {
    std::vector<std::string> words = fine;
    words.emplace_back(other);
    EXPECT_FALSE(space.point_of(words)) << other;
  }
  EXPECT_FALSE(space.point_of({"rate=0.01", "size=2", "optimizer=sgdm"}));
  EXPECT_FALSE(space.point_of({}));
}

}  // namespace
}  // namespace lockstep::sweep
