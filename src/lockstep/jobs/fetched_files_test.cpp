#include "lockstep/jobs/fetched_files.h"

#include <chrono>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/test_folder.h"

namespace lockstep::jobs {
namespace {

namespace fs = std::filesystem;

TEST(FetchedFiles, AreThoseThatTheCommandWroteWhateverTheClockOfTheirServer) {
  const test::TemporaryFolder folder;
  const fs::path work = folder.path() / "work [1]";
  fs::create_directories(work / "out");
  const auto write = [&](const char* name, const char* text) { std::ofstream(work / name) << text; };
  write("old.csv", "old");
  write("changed.csv", "old");
  write("other.txt", "old");
  const FetchedFiles files({.working_folder = work.string(), .fetch = {"*.csv", "out/*"}});
  write("changed.csv", "changed");
  write("new.csv", "new");
  write("out/a.bin", "new");
  for (const char* name : {"changed.csv", "new.csv"})
    fs::last_write_time(work / name, fs::file_time_type::clock::now() - std::chrono::hours(2));
  const JobPaths paths{folder.path() / "job"};
  EXPECT_EQ(files.copy(paths, 1), "");
  for (const char* name : {"changed.csv", "new.csv", "out/a.bin"})
    EXPECT_TRUE(fs::exists(paths.files(1) / name)) << name;
  for (const char* name : {"old.csv", "other.txt"}) EXPECT_FALSE(fs::exists(paths.files(1) / name)) << name;
}

TEST(FetchedFiles, ThatCannotBeCopiedAreNamed) {
  const test::TemporaryFolder folder;
  const FetchedFiles files({.working_folder = folder.path().string(), .fetch = {"*.csv"}});
  folder.write("new.csv", "new");
  folder.write("job/attempt-1", "");  // in the place of the folder: neither files nor a diary can be written
  EXPECT_THAT(files.copy({folder.path() / "job"}, 1), testing::HasSubstr("new.csv"));
}

}  // namespace
}  // namespace lockstep::jobs
