#include "lockstep/studio/sweeps.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/sweep/fetched_sweep.h"
#include "lockstep/sweep/sweep_log.h"

namespace lockstep::studio {
namespace {

namespace fs = std::filesystem;

class ListedSweeps : public testing::Test {
 protected:
  ListedSweeps() : paths_{fs::path(testing::TempDir()) / "lockstep-listed-sweeps"} {
    fs::remove_all(paths_.folder);
    make_folders(paths_.folder);
    sweep::SweepSpec spec{.command = {"echo", "result", "{size}"}};
    spec.space.add("size", "16,32");
    write_spec(paths_, spec);
    sweep::LogWriter(paths_).write({.kind = sweep::LogKind::begin, .trial = 0, .parameters = {"size=16"}});
  }
  ~ListedSweeps() override { fs::remove_all(paths_.folder); }

  sweep::SweepPaths paths_;
};

TEST_F(ListedSweeps, APageGetsTheWordsOfParameters) {
  const Json about = about_sweep("one", paths_, sweep::read_table(paths_));
  EXPECT_EQ(about["rows"][0]["parameters"].dump(), R"({"size":"16"})");
}

TEST_F(ListedSweeps, APageGetsTheOrderOfResultsAndWhatMayChangeThem) {
  sweep::Table table = sweep::read_table(paths_);
  EXPECT_EQ(about_sweep("one", paths_, table)["not_reproducible"], "");
  table.spec.not_reproducible = {"--metric seconds"};
  table.rows.assign(4, {});
  table.rows[0].state = sweep::TrialState::early;
  table.rows[0].value = 0.9;
  for (const size_t row : {1, 2}) {
    table.rows[row].state = sweep::TrialState::ended;
    table.rows[row].value = 0.5;
  }
  const Json about = about_sweep("one", paths_, table);
  EXPECT_EQ(about["not_reproducible"], "another sweep may give another table, because of --metric seconds");
  EXPECT_EQ(about["places"].dump(), "[[0,2],[0,0],[0,1],[2,3]]");
  EXPECT_FALSE(about["rows"][0].contains("place")) << "a parameter may have this name";
}

TEST_F(ListedSweeps, APageKnowsACopy) {
  const sweep::Table table = sweep::read_table(paths_);
  EXPECT_EQ(about_sweep("one", paths_, table)["copy_of"], "");
  mark_as_fetched(paths_, {.sweep = "far:/there/one"});
  EXPECT_EQ(about_sweep("one", paths_, table)["copy_of"], "far:/there/one");
}

// A damaged log may be long, and the list is asked for each second.
TEST_F(ListedSweeps, ADamagedLogIsReadAgainWhenItHasChanged) {
  const std::string whole = read_file(paths_.log(), 1 << 20);
  std::string damaged = whole;
  damaged[0] = '?';
  write_file_atomic(paths_.log(), damaged);
  const auto time = fs::last_write_time(paths_.log());
  Sweeps sweeps({paths_.folder});
  EXPECT_TRUE(sweeps.list()[0].contains("error"));
  write_file_atomic(paths_.log(), whole);
  fs::last_write_time(paths_.log(), time);
  EXPECT_TRUE(sweeps.list()[0].contains("error"));
  fs::last_write_time(paths_.log(), time + std::chrono::seconds(1));
  EXPECT_FALSE(sweeps.list()[0].contains("error"));
}

TEST_F(ListedSweeps, DamagedNotesAreReadAgainWhenTheyHaveChanged) {
  write_file_atomic(paths_.notes(), "no note\n");
  Sweeps sweeps({paths_.folder});
  EXPECT_TRUE(sweeps.list()[0].contains("error"));
  fs::remove(paths_.notes());
  EXPECT_FALSE(sweeps.list()[0].contains("error"));
}

}  // namespace
}  // namespace lockstep::studio
