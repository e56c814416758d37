#include "lockstep/base/test_folder.h"
#include "lockstep/record/event_log.h"

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/record/damaged_log.h"
#include "lockstep/record/event_kinds.h"

namespace lockstep::record {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class EventLogTest : public testing::Test {
 protected:
  void write_steps(int64_t rank, int64_t attempt, int64_t first, int64_t last) {
    EventLog log(run_, rank, attempt);
    for (int64_t step = first; step <= last; ++step) {
      Event event{.step = step, .kind = "step", .values = {{"loss", 1.0 / static_cast<double>(step)}}};
      log.write(event);
    }
  }
  std::vector<std::pair<int64_t, int64_t>> steps_and_attempts() {
    std::vector<std::pair<int64_t, int64_t>> result;
    for (const Event& event : read_events(run_)) result.emplace_back(event.step, event.attempt);
    return result;
  }
  // A run that began again after its third step.
  void write_two_passes() {
    EventLog log(run_, 0, 0);
    const auto write = [&](const char* kind, int64_t step, const char* pass) {
      Event event{.step = step, .kind = kind, .values = {{"text", pass}}};
      log.write(event);
    };
    for (int64_t step = 1; step <= 3; ++step) write("step", step, "first");
    write("hash", 3, "first");
    write("validation", 3, "first");
    write("message", 3, "the run starts again");
    for (int64_t step = 1; step <= 2; ++step) write("step", step, "second");
  }
  std::filesystem::path file(const std::string& name) { return run_ / "events" / name; }
  // What is said of a log of three steps with `line` put in as its second; a refusal is corrupt_data.
  std::string refusal_with_second_line(const std::string& line) {
    write_steps(0, 0, 1, 3);
    std::string content = read_file(file("rank-0-attempt-0.jsonl"));
    content.insert(content.find('\n') + 1, line);
    std::ofstream(file("rank-0-attempt-0.jsonl")) << content;
    try {
      read_events(run_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
      return error.what();
    }
    ADD_FAILURE() << "was read";
    return "";
  }

  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path& run_ = temporary_.path();
};

TEST_F(EventLogTest, DamagedLinesCanBePassedOver) {
  write_steps(0, 0, 1, 3);
  write_steps(0, 1, 4, 5);
  std::ofstream(file("rank-0-attempt-0.jsonl"), std::ios::app) << "no event\n{}\n";
  std::vector<int64_t> steps;
  const std::string damage = read_past_damage(run_, [&](const Event& event) { steps.push_back(event.step); });
  EXPECT_THAT(steps, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(damage, HasSubstr("line 4 of"));
  EXPECT_THAT(damage, HasSubstr("rank-0-attempt-0.jsonl"));
  EXPECT_THAT(damage, HasSubstr("1 more damaged line"));
  EXPECT_THROW(read_events(run_), Error);
  EXPECT_FALSE(end_of_last_attempt(run_).has_value());
  Event end{.step = 5, .kind = End::kind};
  EventLog(run_, 0, 2).write(end);
  EXPECT_TRUE(end_of_last_attempt(run_).has_value());
  std::filesystem::remove(file("rank-0-attempt-0.jsonl"));
  EXPECT_EQ(read_past_damage(run_, [](const Event&) {}), "");
  std::filesystem::create_symlink("/dev/zero", file("rank-0-attempt-3.jsonl"));  // never ends
  EXPECT_THAT(read_past_damage(run_, [](const Event&) {}), HasSubstr("attempt-3.jsonl\" is no regular file"));
}

TEST_F(EventLogTest, RefusesStepsThatAreNoCounts) {
  for (const char* step : {"-1", "-9223372036854775808", "9223372036854775807", "18446744073709551615",
                           "1e300", "1.5", "true", "\"1\""}) {
    const lockstep::test::TemporaryFolder folder;
    std::filesystem::create_directories(folder.path() / "events");
    std::ofstream(folder.path() / "events" / "rank-0-attempt-0.jsonl")
        << R"({"kind":"step","step":)" << step << "}\n{\"kind\":\"step\",\"step\":2}\n";
    EXPECT_THROW(read_events(folder.path()), Error) << step;
  }
  EXPECT_EQ(number(from_line(R"({"kind":"step","step":3,"values":{"loss":1.7e308}})"), "loss"),
            std::numeric_limits<double>::infinity());
}

TEST_F(EventLogTest, ReadsBackWhatWasWritten) {
  EventLog log(run_, 2, 0);
  Event event{.epoch = 3,
              .step = 40,
              .kind = "step",
              .values = {{"loss", 0.1}, {"list", {1, 2}}, {"text", "a \"b\" \n c"}}};
  log.write(event);
  const Event again = read_events(run_).at(0);
  EXPECT_EQ(again.values, event.values);
  EXPECT_EQ(again.time, event.time);
  EXPECT_EQ(again.rank, 2);
  EXPECT_EQ(again.epoch, 3);
  EXPECT_EQ(again.step, 40);
  EXPECT_EQ(again.kind, "step");
  EXPECT_EQ(number(again, "loss"), 0.1);
  EXPECT_EQ(number(again, "absent", 7), 7);
}

TEST_F(EventLogTest, NumbersThatJsonLacksSurvive) {
  EventLog log(run_, 0, 0);
  const double infinity = std::numeric_limits<double>::infinity();
  Event event{.step = 1,
              .kind = "step",
              .values = {{"loss", std::nan("")}, {"high", infinity}, {"low", -infinity}, {"none", nullptr}}};
  log.write(event);
  const Event again = read_events(run_).at(0);
  EXPECT_TRUE(std::isnan(number(again, "loss", 0)));
  EXPECT_TRUE(std::isnan(number(again, "none", 0)));
  EXPECT_EQ(number(again, "high"), infinity);
  EXPECT_EQ(number(again, "low"), -infinity);
  EXPECT_TRUE(std::isnan(number(event, "loss", 0)));
}

TEST_F(EventLogTest, BytesThatAreNotUtf8DoNotEndTheRun) {
  EventLog log(run_, 0, 0);
  Event event{.step = 1, .kind = "message", .values = {{"text", "skipped photo\xff.png"}}};
  log.write(event);
  EXPECT_THAT(text(read_events(run_).at(0), "text"), HasSubstr("skipped photo"));
}

TEST_F(EventLogTest, TornLastLineIsIgnored) {
  write_steps(0, 0, 1, 5);
  const auto path = file("rank-0-attempt-0.jsonl");
  const auto whole = std::filesystem::file_size(path);
  for (uintmax_t cut = 1; cut < 40; cut += 7) {
    std::filesystem::resize_file(path, whole - cut);
    // A line that lacks nothing but its line break is whole.
    EXPECT_EQ(read_events(run_).size(), cut == 1 ? 5U : 4U) << cut;
  }
  std::filesystem::resize_file(path, whole + 100);  // zeros, as a power cut leaves them
  EXPECT_EQ(read_events(run_).size(), 4U);
}

TEST_F(EventLogTest, BrokenLineInTheMiddleIsNamed) {
  const std::string said = refusal_with_second_line("{\"kind\":\"st\n");
  EXPECT_THAT(said, HasSubstr("line 2 of"));
  EXPECT_THAT(said, HasSubstr("rank-0-attempt-0.jsonl"));
}

// Copied and written by recursion: so deep, that would leave the stack.
TEST_F(EventLogTest, ALineNestedTooDeepIsNamed) {
  const std::string said = refusal_with_second_line(
      R"({"kind":"step","step":1,"values":)" + std::string(500'000, '[') + std::string(500'000, ']') + "}\n");
  EXPECT_THAT(said, HasSubstr("nested deeper than 32 levels"));
  EXPECT_THAT(said, HasSubstr("line 2 of"));
}

TEST_F(EventLogTest, LaterAttemptReplacesTheStepsItMadeAgain) {
  write_steps(0, 0, 1, 5);
  write_steps(0, 1, 4, 4);
  EXPECT_THAT(steps_and_attempts(),
              ElementsAre(std::pair(1, 0), std::pair(2, 0), std::pair(3, 0), std::pair(4, 1)));
  write_steps(0, 2, 3, 5);
  EXPECT_THAT(steps_and_attempts(), ElementsAre(std::pair(1, 0), std::pair(2, 0), std::pair(3, 2),
                                                std::pair(4, 2), std::pair(5, 2)));
}

// Of long epochs only some steps are logged.
TEST_F(EventLogTest, AnAttemptReplacesFromItsFirstStepOn) {
  write_steps(0, 0, 1, 5);
  {
    EventLog log(run_, 0, 1);
    Event first{.step = 3, .kind = "first_step"}, logged{.step = 5, .kind = "step"};
    log.write(first);
    log.write(logged);
  }
  EXPECT_THAT(steps_and_attempts(),
              ElementsAre(std::pair(1, 0), std::pair(2, 0), std::pair(3, 1), std::pair(5, 1)));
}

TEST_F(EventLogTest, ARunThatBeganAgainHasOnlyItsLastPass) {
  write_two_passes();
  std::vector<std::string> found;
  for (const Event& event : read_events(run_)) found.push_back(event.kind + " " + text(event, "text"));
  EXPECT_THAT(found, ElementsAre("step second", "step second", "message the run starts again"));
}

TEST_F(EventLogTest, ALaterAttemptFollowsTheLastPass) {
  write_two_passes();
  write_steps(0, 1, 2, 3);
  std::vector<std::string> found;
  for (const Event& event : read_events(run_))
    found.push_back(event.kind + " " + std::to_string(event.step) + " of " + std::to_string(event.attempt));
  EXPECT_THAT(found, ElementsAre("step 1 of 0", "step 2 of 1", "step 3 of 1"));
}

TEST_F(EventLogTest, AnAttemptBeyondAllNumbersIsNoLog) {
  write_steps(0, 0, 1, 1);
  std::ofstream(file("rank-0-attempt-9223372036854775807.jsonl")) << "{\"kind\":\"step\",\"step\":2}\n";
  EXPECT_EQ(next_attempt(run_), 1);
  EXPECT_EQ(read_events(run_).size(), 1U);
}

TEST_F(EventLogTest, AnAttemptWithoutStepsReplacesNothing) {
  write_steps(0, 0, 1, 2);
  {
    EventLog log(run_, 0, 1);
    Event plan{.step = 1, .kind = "plan"};
    log.write(plan);
  }
  EXPECT_THAT(steps_and_attempts(), ElementsAre(std::pair(1, 0), std::pair(1, 1), std::pair(2, 0)));
}

TEST_F(EventLogTest, RanksAreMergedByStep) {
  write_steps(1, 0, 1, 2);
  write_steps(0, 0, 1, 2);
  std::vector<int64_t> steps;
  for (const Event& event : read_events(run_)) steps.push_back(event.step);
  EXPECT_THAT(steps, ElementsAre(1, 1, 2, 2));
}

TEST_F(EventLogTest, NextAttemptCountsFiles) {
  EXPECT_EQ(next_attempt(run_), 0);
  write_steps(0, 0, 1, 1);
  write_steps(3, 6, 1, 1);
  std::ofstream(file("rank-0-attempt-99.jsonl.copy")) << "x";
  EXPECT_EQ(next_attempt(run_), 7);
}

TEST_F(EventLogTest, OneWriterForAnAttempt) {
  write_steps(0, 0, 1, 1);
  EXPECT_THROW(EventLog(run_, 0, 0), Error);
}

TEST_F(EventLogTest, NoLogIsNotFound) {
  try {
    read_events(run_ / "nothing");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_FALSE(error.hint().empty());
  }
}

TEST_F(EventLogTest, FullDiskThrowsOnceAndLeavesWholeLines) {
  write_steps(0, 0, 1, 3);
  // A limit on the file's size fails a write in the middle of a line, as a disk does that fills up.
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    EventLog log(run_, 0, 1);
    int thrown = 0;
    for (int64_t step = 4; step <= 40; ++step) {
      Event event{.step = step, .kind = "step", .values = {{"loss", 0.5}}};
      try {
        log.write(event);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::io) ++thrown;
      }
    }
    ::_exit(thrown == 1 && log.dropped_count() > 20 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  const std::string content = read_file(file("rank-0-attempt-1.jsonl"));
  EXPECT_EQ(content.back(), '\n');
  EXPECT_GT(read_events(run_).size(), 5U);
}

}  // namespace
}  // namespace lockstep::record
