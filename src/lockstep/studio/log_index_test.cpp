#include "lockstep/studio/log_index.h"

#include <fstream>

#include <gmock/gmock.h>

#include "lockstep/base/file.h"
#include "lockstep/record/test_runs.h"
#include "lockstep/studio/run_log.h"

namespace lockstep::studio {
namespace {

using record::EventLog;
using record::Step;
using record::test::write_event;
using testing::ElementsAre;
using testing::Pair;

constexpr auto kLong = std::chrono::seconds(60);

class LogIndexTest : public testing::Test {
 protected:
  // Long enough for an index.
  void log_steps(int64_t from, int64_t count) {
    std::ofstream log(log_, std::ios::app);
    for (int64_t step = from; step < from + count; ++step) {
      log << R"({"kind":"step","step":)" << step << R"(,"epoch":1,"time":)" << 1000 + step
          << R"(,"rank":0,"attempt":0,"sequence":)" << step << R"(,"values":{"loss":)" << step % 100
          << R"(,"shard_workers":[)" << padding_ << "]}}\n";
    }
  }

  void read(RunLog& log) {
    while (log.read_for(kLong)) {
    }
  }

  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> files;
    if (std::filesystem::exists(cache_))
      for (const auto& entry : std::filesystem::directory_iterator(cache_)) files.push_back(entry.path());
    return files;
  }

  static Points points(RunLog& log, const std::string& name, Axis axis = Axis::step) {
    return log
        .curve({.name = name, .axis = axis, .window = {.from = -1e300, .to = 1e300, .columns = 100'000}})
        ->raw;
  }

  static void expect_equal(RunLog& one, RunLog& other) {
    EXPECT_EQ(one.said(), other.said());
    EXPECT_EQ(one.names(), other.names());
    for (const Axis axis : {Axis::step, Axis::epoch, Axis::time}) {
      EXPECT_EQ(points(one, "step.loss", axis).x, points(other, "step.loss", axis).x);
      EXPECT_EQ(points(one, "step.loss", axis).y, points(other, "step.loss", axis).y);
    }
  }

  const lockstep::test::TemporaryFolder folder_;
  const std::filesystem::path run_ = folder_.path() / "run";
  const std::filesystem::path log_ = run_ / "events" / "rank-0-attempt-0.jsonl";
  const std::filesystem::path cache_ = folder_.path() / "cache";
  const LogIndexes indexes_{cache_};

 private:
  void SetUp() override {
    std::filesystem::create_directories(log_.parent_path());
    for (int i = 0; i < 900; ++i) padding_ += "1,";
    padding_ += "1";
  }

  std::string padding_;
};

TEST_F(LogIndexTest, TheNextOpeningReadsOnlyWhatWasAdded) {
  log_steps(1, 10'000);
  RunLog first(run_, indexes_);
  read(first);
  first.keep();
  ASSERT_EQ(files().size(), 1U);
  {
    RunLog second(run_, indexes_);
    second.open(kLong);
    EXPECT_EQ(points(second, "step.loss").count, 10'000);
    EXPECT_FALSE(second.read_for(kLong));
    EXPECT_TRUE(second.is_complete());
    expect_equal(second, first);
  }
  log_steps(10'001, 1);
  RunLog third(run_, indexes_), without(run_);
  read(third);
  read(without);
  expect_equal(third, without);
  EXPECT_EQ(third.said()["newest"]["step"], 10'001);
}

TEST_F(LogIndexTest, AShortLogNeedsNone) {
  log_steps(1, 100);
  RunLog log(run_, indexes_);
  read(log);
  log.keep();
  EXPECT_THAT(files(), ElementsAre());
}

TEST_F(LogIndexTest, AnotherRunOfThisNameIsReadAnew) {
  log_steps(1, 10'000);
  RunLog first(run_, indexes_);
  read(first);
  first.keep();
  // Of the same size, and with the same last lines.
  std::string text = read_file(log_);
  text.replace(text.find("\"loss\":1,"), 9, "\"loss\":7,");
  write_file_atomic(log_, text);
  RunLog second(run_, indexes_), without(run_);
  read(second);
  read(without);
  expect_equal(second, without);
  EXPECT_EQ(points(second, "step.loss").y.front(), 7);
  // Written in place: its inode stays.
  second.keep();
  std::ofstream(log_, std::ios::trunc).close();
  log_steps(5, 3);
  RunLog third(run_, indexes_);
  read(third);
  EXPECT_THAT(points(third, "step.loss").x, ElementsAre(5, 6, 7));
}

TEST_F(LogIndexTest, ADamagedIndexCountsAsNone) {
  LogContents contents;
  contents.tracks["step"] = {.step = {1, 2}, .epoch = {1, 1}, .time = {0, 1}, .values = {{"loss", {3, 4}}}};
  log_steps(1, 2);
  std::filesystem::create_directories(cache_);
  const record::LogPlace place{.file = log_.filename().string(), .offset = 10, .given = "\xff{"};
  indexes_.write(run_, {place}, contents);
  ASSERT_EQ(files().size(), 1U);
  const std::string text = read_file(files()[0]);
  auto whole = indexes_.read(run_);
  ASSERT_TRUE(whole && whole->columns.read_all(whole->contents));
  EXPECT_THAT(whole->contents.tracks.at("step").values, ElementsAre(Pair("loss", ElementsAre(3, 4))));
  EXPECT_EQ(whole->places[0].given, place.given);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] ^= 1;
    std::ofstream(files()[0], std::ios::trunc) << damaged;
    auto index = indexes_.read(run_);
    ASSERT_FALSE(index && index->columns.read_all(index->contents)) << "byte " << i;
    if (i % 16 != 0) continue;
    std::ofstream(files()[0], std::ios::trunc) << text.substr(0, i);
    ASSERT_FALSE(indexes_.read(run_)) << i << " bytes";
  }
}

TEST_F(LogIndexTest, TheLogIsReadWhereTheIndexLacksACurve) {
  log_steps(1, 10'000);
  RunLog first(run_, indexes_);
  read(first);
  first.keep();
  std::string text = read_file(files()[0]);
  text.back() = static_cast<char>(text.back() ^ 1);  // of the last column: losses
  write_file_atomic(files()[0], text);
  RunLog second(run_, indexes_);
  second.open(kLong);
  read(second);
  EXPECT_FALSE(second.curve({.name = "step.loss", .window = {.from = 0, .to = 1e9}}));
  read(second);
  expect_equal(second, first);
}

TEST_F(LogIndexTest, ACacheThatCannotBeWrittenIsLeftAlone) {
  log_steps(1, 10'000);
  std::ofstream(cache_) << "no folder";
  RunLog log(run_, indexes_);
  read(log);
  log.keep();
  EXPECT_EQ(read_file(cache_), "no folder");
  EXPECT_EQ(points(log, "step.loss").count, 10'000);
}

}  // namespace
}  // namespace lockstep::studio
