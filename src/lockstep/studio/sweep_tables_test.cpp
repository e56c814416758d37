#include "lockstep/studio/sweep_tables.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/jobs/job_lock.h"
#include "lockstep/sweep/sweep_log.h"

namespace lockstep::studio {
namespace {

class ShownTables : public testing::Test {
 protected:
  ShownTables() : folder_(std::filesystem::path(testing::TempDir()) / "lockstep-sweep-tables") {
    std::filesystem::remove_all(folder_);
  }
  ~ShownTables() override { std::filesystem::remove_all(folder_); }

  sweep::SweepPaths make_sweep(const char* name) const {
    sweep::SweepPaths paths{folder_ / name};
    make_folders(paths.folder);
    sweep::SweepSpec spec{.command = {"echo", "result", "{x}"}};
    spec.space.add("x", "1..9");
    write_spec(paths, spec);
    begin(paths, 0);
    return paths;
  }
  static void begin(const sweep::SweepPaths& paths, int64_t trial) {
    sweep::LogWriter(paths).write({.kind = sweep::LogKind::begin,
                                   .trial = trial,
                                   .text = std::string(2000, '-'),  // longer than what a reader compares
                                   .parameters = {"x=1"}});
  }
  static jobs::FileLock work_on(const sweep::SweepPaths& paths) { return jobs::FileLock::take(paths.lock()); }
  // So that it is refused if it is read from the beginning.
  static void spoil_beginning(const sweep::SweepPaths& paths) { std::fstream(paths.log()) << "no JSON"; }

  std::filesystem::path folder_;
};

TEST_F(ShownTables, OnlyWhatWasAddedIsRead) {
  SweepTables tables;
  const sweep::SweepPaths paths = make_sweep("one");
  EXPECT_EQ(tables.table_of("one", paths).rows.size(), 1U);
  spoil_beginning(paths);
  begin(paths, 1);
  EXPECT_EQ(tables.table_of("one", paths).rows.size(), 2U);
}

TEST_F(ShownTables, ALogThatWasReplacedIsReadAnew) {
  SweepTables tables;
  const sweep::SweepPaths paths = make_sweep("one");
  begin(paths, 1);
  EXPECT_EQ(tables.table_of("one", paths).rows.size(), 2U);
  std::filesystem::remove_all(paths.folder);
  EXPECT_THROW(tables.table_of("one", paths), Error);
  make_sweep("one");
  EXPECT_EQ(tables.table_of("one", paths).rows.size(), 1U);
}

TEST_F(ShownTables, OfSweepsThatAreOverTheOneOfAPageIsRemembered) {
  SweepTables tables;
  const sweep::SweepPaths one = make_sweep("one"), two = make_sweep("two"), three = make_sweep("three");
  tables.table_of("one", one);
  tables.table_of("two", two);
  tables.listed_table_of("three", three);
  for (const sweep::SweepPaths& paths : {one, two, three}) spoil_beginning(paths);
  EXPECT_THROW(tables.listed_table_of("one", one), Error);
  EXPECT_EQ(tables.listed_table_of("two", two).rows.size(), 1U);
  EXPECT_THROW(tables.listed_table_of("three", three), Error);
}

TEST_F(ShownTables, SweepsOfAListAreRememberedWhileTheyGoOn) {
  SweepTables tables;
  const sweep::SweepPaths shown = make_sweep("shown"), one = make_sweep("one"), two = make_sweep("two");
  tables.table_of("shown", shown);
  {
    const auto work_on_one = work_on(one), work_on_two = work_on(two);
    tables.listed_table_of("one", one);
    tables.listed_table_of("two", two);
    for (const sweep::SweepPaths& paths : {shown, one, two}) spoil_beginning(paths);
    EXPECT_EQ(tables.listed_table_of("one", one).rows.size(), 1U);
    EXPECT_EQ(tables.listed_table_of("two", two).rows.size(), 1U);
  }
  EXPECT_FALSE(tables.listed_table_of("one", one).is_going_on);
  EXPECT_THROW(tables.listed_table_of("one", one), Error);
  EXPECT_EQ(tables.table_of("shown", shown).rows.size(), 1U);
}

TEST_F(ShownTables, TheOnesShownLongestAgoAreForgotten) {
  SweepTables tables(4);  // each sweep counts as one row more
  const sweep::SweepPaths one = make_sweep("one"), two = make_sweep("two"), three = make_sweep("three");
  const auto work_on_one = work_on(one), work_on_two = work_on(two), work_on_three = work_on(three);
  tables.table_of("one", one);
  tables.table_of("two", two);
  tables.table_of("one", one);
  tables.table_of("three", three);
  spoil_beginning(one);
  spoil_beginning(two);
  EXPECT_EQ(tables.table_of("one", one).rows.size(), 1U);
  EXPECT_THROW(tables.table_of("two", two), Error);
}

}  // namespace
}  // namespace lockstep::studio
