#include "lockstep/record/summary.h"

#include <atomic>
#include <fcntl.h>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/record/disk_use.h"
#include "lockstep/record/test_runs.h"

namespace lockstep::record {
namespace {

using testing::HasSubstr;

class SummaryTest : public testing::Test {
 protected:
  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path run_ = temporary_.path() / "run";
};

TEST_F(SummaryTest, OfARunThatHasEnded) {
  test::write_ended_run(run_, 0.875);
  temporary_.write("run/options.json", R"({"format": 2, "plan": {"network": {"network": "resnet18"}}})");
  const RunSummary summary = summary_of(run_);
  EXPECT_EQ(summary.state, RunState::ended);
  EXPECT_EQ(summary.network, "resnet18");
  EXPECT_EQ(summary.data, "photos");
  EXPECT_EQ(summary.accuracy, 0.875);  // the result's
  EXPECT_EQ(summary.best_accuracy, 0.75);
  EXPECT_EQ(summary.best_step, 10);
  EXPECT_EQ(summary.loss, 0.5);
  EXPECT_EQ(summary.step, 20);
  EXPECT_EQ(summary.total_steps, 20);
  EXPECT_EQ(summary.seconds, 22);
  EXPECT_EQ(summary.started, 1000);
}

TEST_F(SummaryTest, OfARunThatHasOnlyEvents) {
  test::write_log(run_, 0, "patience");
  const RunSummary summary = summary_of(run_);
  EXPECT_EQ(summary.state, RunState::ended);
  EXPECT_EQ(summary.reason, "patience");
  EXPECT_EQ(summary.network, "lenet");
  EXPECT_EQ(summary.accuracy, 0.5);
  EXPECT_EQ(summary.validation_loss, 0.25);
  EXPECT_EQ(summary.seconds, 21);
  EXPECT_EQ(summary.step, 20);
}

TEST_F(SummaryTest, OfAManifestOfFormatOne) {
  temporary_.write("run/options.json", R"({"format": 1, "plan": {"network": "squeezenet"}})");
  temporary_.write("run/lock", "process 1 on nowhere\n");
  EXPECT_EQ(summary_of(run_).network, "squeezenet");
}

TEST_F(SummaryTest, AResumedRunHasTheValidationsOfItsEarlierAttempts) {
  test::write_log(run_, 0, "stopped");
  {
    EventLog log(run_, 0, 1);
    test::write_event(log, event_of(PlanOfRun{}, 20, 1), 2000);
  }
  write_status(run_, test::status_with(RunState::running));
  const RunSummary summary = summary_of(run_);
  EXPECT_EQ(summary.state, RunState::running);
  EXPECT_EQ(summary.accuracy, 0.5);
  EXPECT_EQ(summary.started, 1000);
}

TEST_F(SummaryTest, TheBestValidationOfALongLogIsInTheStatus) {
  {
    EventLog log(run_, 0, 0);
    Validation validation;
    validation.accuracy = 0.9;
    validation.best = true;
    test::write_event(log, event_of(validation, 10, 1), 1000);
    const Message filler{.text = std::string(1000, 'x')};
    for (int i = 0; i < 1000; ++i) test::write_event(log, event_of(filler, 20, 1), 1001);
  }
  Status status = test::status_with(RunState::running);
  status.best_accuracy = 0.9;
  status.best_step = 10;
  write_status(run_, status);
  EXPECT_EQ(summary_of(run_).best_accuracy, 0.9);
  EXPECT_EQ(summary_of(run_).best_step, 10);
  {  // a better one, which the status does not have yet
    EventLog log(run_, 0, 1);
    Validation validation;
    validation.accuracy = 0.95;
    validation.best = true;
    test::write_event(log, event_of(validation, 30, 2), 2000);
  }
  EXPECT_EQ(summary_of(run_).best_accuracy, 0.95);
  EXPECT_EQ(summary_of(run_).best_step, 30);
}

TEST_F(SummaryTest, ARunThatBeganAgainHasTheFiguresOfItsLastPass) {
  {
    EventLog log(run_, 0, 0);
    Step step;
    Validation validation;
    validation.accuracy = 0.25;
    validation.best = true;
    step.loss = 2;
    for (int64_t i = 1; i <= 30; ++i) test::write_event(log, event_of(step, i, 1 + i / 20), 1000);
    test::write_event(log, event_of(validation, 30, 2), 1001);
    step.loss = 0.5;
    for (int64_t i = 1; i <= 12; ++i) test::write_event(log, event_of(step, i, 1), 1002);
  }
  Status status = test::status_with(RunState::running);
  status.step = 12;
  write_status(run_, status);
  const RunSummary summary = summary_of(run_);
  EXPECT_EQ(summary.step, 12);
  EXPECT_EQ(summary.epoch, 1);
  EXPECT_EQ(summary.loss, 0.5);
  EXPECT_FALSE(summary.accuracy.has_value());
  EXPECT_FALSE(summary.best_accuracy.has_value());
}

TEST_F(SummaryTest, ValidationsThatAResumedRunMakesAgainAreNotItsOwn) {
  test::write_log(run_, 0, "");  // validated after steps 10 and 20
  {
    EventLog log(run_, 0, 1);
    test::write_event(log, event_of(FirstStep{}, 12, 1), 2000);
  }
  Status status = test::status_with(RunState::running);
  status.step = 12;
  write_status(run_, status);
  EXPECT_EQ(summary_of(run_).accuracy, 0.75);
  EXPECT_EQ(summary_of(run_).best_step, 10);
  EXPECT_EQ(summary_of(run_).step, 12);
}

TEST_F(SummaryTest, AFailedAttemptHasNoResultOfAnEarlierOne) {
  test::write_ended_run(run_, 0.875);
  write_status(run_, test::status_with(RunState::failed));
  const RunSummary summary = summary_of(run_);
  EXPECT_EQ(summary.state, RunState::failed);
  EXPECT_EQ(summary.accuracy, 0.5);  // that of the log
}

TEST_F(SummaryTest, DamagedFilesDoNotEndTheList) {
  std::string junk(5000, '\0');
  for (size_t i = 0; i < junk.size(); ++i) junk[i] = static_cast<char>(i * 37 + i / 7);
  test::write_ended_run(run_);
  for (const char* name : {"options.json", "result.json", "status.json", "events/rank-0-attempt-0.jsonl"}) {
    temporary_.write(std::string("run/") + name, junk);
    EXPECT_NO_THROW(summary_of(run_)) << name;
  }
  EXPECT_TRUE(is_run_folder(run_));
  temporary_.write("run/status.json", std::string(100'000, '[') + "\n");
  EXPECT_NO_THROW(summary_of(run_));
  temporary_.write("run/result.json", R"({"reason": 7, "steps": 1e300})");
  temporary_.write("run/options.json", R"({"plan": {"network": {"network": [1]}}})");
  EXPECT_NO_THROW(summary_of(run_));
}

TEST_F(SummaryTest, APipeIsNotWaitedFor) {
  test::write_ended_run(run_);
  for (const char* name : {"status.json", "result.json", "events/rank-0-attempt-0.jsonl"}) {
    std::filesystem::remove(run_ / name);
    ASSERT_EQ(::mkfifo((run_ / name).c_str(), 0600), 0);
    EXPECT_NO_THROW(summary_of(run_)) << name;
  }
  EXPECT_EQ(summary_of(run_).state, std::nullopt);
  EXPECT_THAT(summary_of(run_).reason, HasSubstr("is no file"));
}

TEST_F(SummaryTest, FoldersWithSimilarNamesAreNoRuns) {
  temporary_.write("app/options.json", "{}");
  temporary_.write("app/events/click.cpp", "");
  temporary_.write("app/status.json", R"({"status": "green"})"
                                      "\n");
  EXPECT_FALSE(is_run_folder(temporary_.path() / "app"));
  EXPECT_FALSE(is_run_folder(temporary_.path() / "none"));
}

TEST_F(SummaryTest, DiskUseCountsFilesOnceAndFollowsNoLinks) {
  temporary_.write("run/a", std::string(1000, 'x'));
  temporary_.write("run/b/c", std::string(500, 'x'));
  temporary_.write("far", std::string(9000, 'x'));
  std::filesystem::create_hard_link(run_ / "a", run_ / "b" / "same");
  std::filesystem::create_symlink(temporary_.path(), run_ / "out");
  std::filesystem::create_symlink(temporary_.path() / "far", run_ / "far");
  EXPECT_EQ(disk_use(run_), 1500);
}

TEST_F(SummaryTest, DiskUseNeedsFewOpenFiles) {
  std::string deep = "run";
  for (int depth = 0; depth < 40; ++depth) {
    deep += "/below";
    temporary_.write(deep + "/file", "12345");
  }
  for (int file = 0; file < 3000; ++file) temporary_.write("run/many/" + std::to_string(file), "x");
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  const Descriptor next(::open("/", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(next);
  rlimit few = usual;
  few.rlim_cur = static_cast<rlim_t>(next.get()) + 8;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const int64_t bytes = disk_use(run_);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(bytes, 40 * 5 + 3000);
}

TEST_F(SummaryTest, DiskUseLeavesOutWhatVanishesMeanwhile) {
  temporary_.write("run/stays", "12345");
  std::atomic<bool> done = false;
  std::jthread other([&] {
    while (!done) {
      for (int file = 0; file < 20; ++file)
        temporary_.write("run/part-" + std::to_string(file % 3) + "/" + std::to_string(file), "");
      for (int part = 0; part < 3; ++part)
        std::filesystem::remove_all(run_ / ("part-" + std::to_string(part)));
    }
  });
  for (int look = 0; look < 200; ++look) EXPECT_EQ(disk_use(run_), 5);
  done = true;
}

}  // namespace
}  // namespace lockstep::record
