#include "lockstep/studio/sweep_tables.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

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
    sweep::LogWriter(paths).write({.kind = sweep::LogKind::begin, .trial = trial, .parameters = {"x=1"}});
  }
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

TEST_F(ShownTables, TheOnesAskedForLongestAgoAreForgotten) {
  SweepTables tables(4);  // each sweep counts as one row more
  const sweep::SweepPaths one = make_sweep("one"), two = make_sweep("two"), three = make_sweep("three");
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
