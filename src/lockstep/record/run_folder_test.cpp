#include "lockstep/base/test_folder.h"
#include "lockstep/record/run_folder.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::record {
namespace {

using testing::HasSubstr;

class RunFolderTest : public testing::Test {
 protected:
  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path& root_ = temporary_.path();
};

template <class Work>
std::string error_of(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(RunFolderTest, CreateMakesTheFolder) {
  const auto run = RunFolder::create(root_ / "a" / "b");
  EXPECT_TRUE(std::filesystem::is_directory(root_ / "a" / "b"));
  EXPECT_TRUE(run.locked());
  EXPECT_EQ(run.paths().weights(), root_ / "a" / "b" / "model.safetensors");
}

TEST_F(RunFolderTest, CreateRefusesAUsedFolder) {
  std::ofstream(root_ / "options.json") << "{}";
  const std::string used = error_of([&] { RunFolder::create(root_); });
  EXPECT_THAT(used, HasSubstr("already contains a run"));
  EXPECT_THAT(used, HasSubstr("hint: add --resume to continue it, or name another --output"));
}

TEST_F(RunFolderTest, CreateRefusesSomebodyElsesFolderAndLeavesItAlone) {
  std::ofstream(root_ / "thesis.tex") << "x";
  EXPECT_THAT(error_of([&] { RunFolder::create(root_); }), HasSubstr("is not empty"));
  EXPECT_FALSE(std::filesystem::exists(root_ / "lock"));
  EXPECT_THAT(error_of([&] { RunFolder::create(root_ / "thesis.tex"); }), HasSubstr("is a file"));
  EXPECT_THAT(error_of([&] { RunFolder::open(root_); }), HasSubstr("does not contain a run"));
}

// Somebody looks at the run, or asks something of it, before it begins.
TEST_F(RunFolderTest, AFolderWithWhatReadersPutThereIsFree) {
  std::ofstream(root_ / ".clock-a1b2c3") << "\n";
  std::filesystem::create_directory(root_ / "requests");
  EXPECT_TRUE(RunFolder::create(root_).locked());
}

TEST_F(RunFolderTest, AFolderWithNothingButALockIsFree) {
  std::filesystem::create_directory(root_ / "x");
  std::ofstream(root_ / "x" / "lock") << "process 7 on nowhere";
  EXPECT_NO_THROW(RunFolder::create(root_ / "x"));
  EXPECT_NO_THROW(RunFolder::open(root_ / "x"));
}

TEST_F(RunFolderTest, AFolderWithWhatStandsBeforeTheOptionsIsFree) {
  std::filesystem::create_directory(root_ / "x");
  for (const char* name : {"lock", "listing.jsonl", "listing.jsonl.part", "options.json.part"})
    std::ofstream(root_ / "x" / name) << "[";
  EXPECT_NO_THROW(RunFolder::create(root_ / "x"));
  std::ofstream(root_ / "x" / "options.json") << "{}";
  EXPECT_THAT(error_of([&] { RunFolder::create(root_ / "x"); }), HasSubstr("already contains a run"));
}

TEST_F(RunFolderTest, AFolderMadeForNothingIsTakenAway) {
  std::filesystem::create_directory(root_ / "mine");
  { const auto run = RunFolder::create(root_ / "mine"); }
  EXPECT_TRUE(std::filesystem::exists(root_ / "mine"));
  { const auto run = RunFolder::create(root_ / "new"); }
  EXPECT_FALSE(std::filesystem::exists(root_ / "new"));
  { const auto run = RunFolder::create_numbered("digits", root_ / "runs"); }
  EXPECT_FALSE(std::filesystem::exists(root_ / "runs" / "digits-001"));
  {
    const auto run = RunFolder::create_numbered("digits", root_ / "runs");
    std::ofstream(run.paths().options()) << "{}";
  }
  EXPECT_TRUE(std::filesystem::exists(root_ / "runs" / "digits-001" / "options.json"));
}

TEST_F(RunFolderTest, OpenNeedsAFolder) {
  EXPECT_THAT(error_of([&] { RunFolder::open(root_ / "none"); }), HasSubstr("no run folder"));
}

TEST_F(RunFolderTest, SecondProgramIsToldWhoWrites) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto run = RunFolder::create(root_ / "x");
    std::ofstream(run.paths().options()) << "{}";
    (void)!::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const std::string message = error_of([&] { RunFolder::open(root_ / "x"); });
  EXPECT_THAT(message, HasSubstr("another program is writing to the run"));
  EXPECT_THAT(message, HasSubstr("process " + std::to_string(child) + " on "));
  EXPECT_THAT(error_of([&] { RunFolder::create(root_ / "x"); }),
              HasSubstr("process " + std::to_string(child)));

  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_NO_THROW(RunFolder::open(root_ / "x"));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(RunFolderTest, IsFoundAroundAFile) {
  std::filesystem::create_directories(root_ / "run" / "checkpoints" / "step-1");
  std::ofstream(root_ / "run" / "options.json") << "{}";
  EXPECT_EQ(run_folder_around(root_ / "run" / "model.safetensors"), root_ / "run");
  EXPECT_EQ(run_folder_around(root_ / "run" / "checkpoints" / "step-1" / "model.safetensors"), root_ / "run");
  EXPECT_EQ(run_folder_around(root_ / "model.safetensors"), std::nullopt);
}

TEST_F(RunFolderTest, NumberedNamesGoUp) {
  EXPECT_EQ(default_name("digits", root_ / "runs"), root_ / "runs" / "digits-001");
  const auto first = RunFolder::create_numbered("digits", root_ / "runs");
  EXPECT_EQ(first.paths().folder.filename(), "digits-001");
  std::filesystem::create_directories(root_ / "runs" / "digits-041");
  std::filesystem::create_directories(root_ / "runs" / "digits-x");
  EXPECT_EQ(RunFolder::create_numbered("digits", root_ / "runs").paths().folder.filename(), "digits-042");
  EXPECT_EQ(default_name("my photos/2", root_).filename(), "my-photos-2-001");
  EXPECT_EQ(default_name("..", root_).filename(), "run..-001");
}

}  // namespace
}  // namespace lockstep::record
