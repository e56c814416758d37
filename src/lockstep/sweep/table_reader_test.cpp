#include "lockstep/sweep/table_reader.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/jobs/job_lock.h"

namespace lockstep::sweep {
namespace {

namespace fs = std::filesystem;

class ReadTable : public testing::Test {
 protected:
  ReadTable() : paths_{fs::path(testing::TempDir()) / "lockstep-table-reader"} {
    fs::remove_all(paths_.folder);
    make_folders(paths_.folder);
    SweepSpec spec{.command = {"echo", "result", "{x}"}};
    spec.space.add("x", "1..9");
    write_spec(paths_, spec);
  }
  ~ReadTable() override { fs::remove_all(paths_.folder); }

  static std::string text_of_rows(const Table& table) {
    std::string text;
    for (const Row& row : table.rows) text += json_of(row, table.spec.space).dump() + "\n";
    return text;
  }

  SweepPaths paths_;
};

TEST_F(ReadTable, IsTheSameAfterEachLine) {
  TableReader reader(paths_);
  EXPECT_TRUE(reader.read().rows.empty());
  LogWriter log(paths_);
  const std::vector<LogLine> lines{
      {.kind = LogKind::begin, .trial = 1, .until = 30, .parameters = {"x=1"}},
      {.kind = LogKind::begin, .trial = 0, .until = 30, .parameters = {"x=2"}},
      {.kind = LogKind::outcome,
       .trial = 1,
       .until = 30,
       .state = TrialState::waiting,
       .value = 1,
       .step = 30},
      {.kind = LogKind::pause, .trial = 0, .until = 30},
      {.kind = LogKind::begin, .trial = 0, .until = 30, .parameters = {"x=2"}},
      {.kind = LogKind::lost, .trial = 0, .until = 30, .text = "memory ran out"},
      {.kind = LogKind::early, .trial = 1, .value = 1, .step = 30},
      {.kind = LogKind::outcome, .trial = 0, .state = TrialState::failed, .text = "it failed"},
      {.kind = LogKind::restart, .trial = 0}};
  for (const LogLine& line : lines) {
    log.write(line);
    if (line.kind == LogKind::lost) annotate(paths_, 0, "a note");
    EXPECT_EQ(text_of_rows(reader.read()), text_of_rows(read_table(paths_)));
  }
  const auto lock = jobs::FileLock::try_take(paths_.lock());
  log.write({.kind = LogKind::begin, .trial = 0, .parameters = {"x=3"}});
  const Table table = reader.read();
  EXPECT_TRUE(table.is_going_on);
  EXPECT_EQ(table.rows[0].state, TrialState::running);
  EXPECT_EQ(table.rows[0].note, "a note");
}

TEST_F(ReadTable, ATrialThatAPersonHasStoppedStaysStoppedThere) {
  LogWriter log(paths_);
  log.write({.kind = LogKind::outcome,
             .trial = 0,
             .until = 30,
             .state = TrialState::stopped,
             .value = 1,
             .step = 20});
  log.write({.kind = LogKind::early, .trial = 0, .value = 1, .step = 20});
  EXPECT_EQ(read_table(paths_).rows.at(0).state, TrialState::stopped);
  log.write({.kind = LogKind::early, .trial = 0, .value = 1, .step = 10});
  EXPECT_EQ(read_table(paths_).rows.at(0).state, TrialState::early);
}

// What was read before is not looked at again, so that a look at a long log costs no more than at a short
// one.
TEST_F(ReadTable, ReadsOnlyTheLinesThatWereAdded) {
  LogWriter log(paths_);
  for (int64_t trial = 0; trial < 30; ++trial)
    log.write({.kind = LogKind::begin, .trial = trial, .parameters = {"x=1"}});
  TableReader reader(paths_);
  EXPECT_EQ(reader.read().rows.size(), 30U);
  std::fstream(paths_.log()) << "no JSON";  // over the first bytes
  log.write({.kind = LogKind::begin, .trial = 30, .parameters = {"x=2"}});
  EXPECT_EQ(reader.read().rows.size(), 31U);
  EXPECT_THROW(read_table(paths_), Error);
}

TEST_F(ReadTable, ADamagedLineIsRefusedUntilItIsGone) {
  LogWriter log(paths_);
  log.write({.kind = LogKind::begin, .trial = 0, .parameters = {"x=1"}});
  TableReader reader(paths_);
  EXPECT_EQ(reader.read().rows.size(), 1U);
  const std::string fine = read_file(paths_.log(), 1 << 20);
  std::ofstream(paths_.log(), std::ios::app) << "no JSON\n";
  EXPECT_THROW(reader.read(), Error);
  EXPECT_THROW(reader.read(), Error);
  write_file_atomic(paths_.log(), fine);
  EXPECT_EQ(reader.read().rows.size(), 1U);
}

TEST_F(ReadTable, BeginsAnewWithAnotherLog) {
  LogWriter(paths_).write({.kind = LogKind::begin, .trial = 5, .parameters = {"x=1"}});
  TableReader reader(paths_);
  EXPECT_EQ(reader.read().rows[0].trial, 5);
  write_file_atomic(paths_.log(),
                    read_file(paths_.log(), 1 << 20) + R"({"kind": "restart", "trial": 7})" + "\n");
  EXPECT_EQ(reader.read().rows.size(), 2U);
  fs::remove(paths_.log());
  EXPECT_TRUE(reader.read().rows.empty());
}

// File systems give the inode of a removed file to the next one.
TEST_F(ReadTable, BeginsAnewWithALongerLogOfTheSameInode) {
  LogWriter(paths_).write({.kind = LogKind::begin, .trial = 5, .parameters = {"x=1"}});
  annotate(paths_, 5, "a note");
  TableReader reader(paths_);
  EXPECT_EQ(reader.read().rows[0].trial, 5);
  fs::resize_file(paths_.log(), 0);
  for (const int64_t trial : {0, 1, 2})
    LogWriter(paths_).write({.kind = LogKind::begin, .trial = trial, .parameters = {"x=1"}});
  EXPECT_EQ(text_of_rows(reader.read()), text_of_rows(read_table(paths_)));
  std::ofstream(paths_.notes()) << R"({"trial": 1, "text": "another note"})"
                                << "\n";
  EXPECT_EQ(reader.read().rows[1].note, "another note");
  EXPECT_EQ(reader.read().rows.size(), 3U);
}

TEST_F(ReadTable, ATrialThatWasCutShortCanEnd) {
  LogWriter log(paths_);
  log.write({.kind = LogKind::begin, .trial = 0, .parameters = {"x=2"}});
  log.write({.kind = LogKind::pause, .trial = 0});
  TableReader reader(paths_);
  EXPECT_TRUE(reader.read().can_end(0));
  log.write({.kind = LogKind::restart, .trial = 0});
  EXPECT_FALSE(reader.read().can_end(0));
}

// tests/studio/trials_test.py compares these with Studio's.
TEST(ResultText, HasTheDigitsThatMatter) {
  const std::vector<std::pair<double, std::string>> texts{{0, "0.0000"},
                                                          {0.5, "0.5000"},
                                                          {0.03125, "0.0312"},
                                                          {0.00123456, "0.001235"},
                                                          {0.000012345, "1.234e-05"},
                                                          {99999, "99999.0000"},
                                                          {123456, "1.235e+05"},
                                                          {-3e30, "-3e+30"}};
  for (const auto& [value, text] : texts) EXPECT_EQ(result_text(value), text);
}

// The metric and the goal may be named or not.
TEST(SweepSpec, AnotherMetricIsNamedAsTheSweepHasIt) {
  const SweepSpec had{.command = {"train", "data"}};
  SweepSpec asked = had;
  asked.options.metric = "best_accuracy";
  asked.options.goal = Goal::maximize;
  EXPECT_EQ(difference(had, asked), std::nullopt);
  asked.options.metric = "loss";
  EXPECT_EQ(difference(had, asked), "its --metric is \"best_accuracy\"");
  asked.options.metric.clear();
  asked.options.goal = Goal::minimize;
  EXPECT_EQ(difference(had, asked), "its --goal is \"maximize\"");
}

}  // namespace
}  // namespace lockstep::sweep
