#include "lockstep/record/remove_run.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/record/test_process.h"
#include "lockstep/record/test_runs.h"

namespace lockstep::record {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RemoveRunTest : public testing::Test {
 protected:
  std::string refusal(const std::filesystem::path& folder) const {
    try {
      remove_run(folder);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path run_ = temporary_.path() / "run";
};

TEST_F(RemoveRunTest, ARunIsRemovedWithItsFolder) {
  test::write_ended_run(run_);
  temporary_.write("run/checkpoints/step-00000020/DONE", "");
  temporary_.write("run/options.json", "{}");
  temporary_.write("run/confusion.csv", "true class,a\na,1\n");
  temporary_.write("run/model.safetensors.part", "x");
  EXPECT_THAT(remove_run(run_ / "").kept, IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(run_));
}

TEST_F(RemoveRunTest, TheCurrentFolderIsRemoved) {
  const std::filesystem::path before = std::filesystem::current_path();
  for (const char* name : {".", "./."}) {
    test::write_ended_run(run_);
    std::filesystem::current_path(run_);
    EXPECT_THAT(remove_run(name).kept, IsEmpty());
    std::filesystem::current_path(before);
    EXPECT_FALSE(std::filesystem::exists(run_)) << name;
  }
}

TEST_F(RemoveRunTest, OtherFilesStay) {
  test::write_ended_run(run_);
  temporary_.write("run/thesis.tex", "x");
  EXPECT_THAT(remove_run(run_).kept, ElementsAre("thesis.tex"));
  EXPECT_TRUE(std::filesystem::exists(run_ / "thesis.tex"));
  EXPECT_FALSE(std::filesystem::exists(run_ / "events"));
  EXPECT_THAT(refusal(run_), HasSubstr("is not a run folder"));
}

TEST_F(RemoveRunTest, AFullDiskIsNoObstacle) {
  const int code = test::in_child([&] {
    if (!test::enter_namespaces(CLONE_NEWNS)) return test::kNotPermitted;
    ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (::mount("none", temporary_.path().c_str(), "tmpfs", 0, "size=256k") != 0) return test::kNotPermitted;
    test::write_ended_run(run_);
    temporary_.write("run/lock", "");
    const int filler = ::open((run_ / "model.safetensors").c_str(), O_WRONLY | O_CREAT, 0600);
    while (::write(filler, "x", 1) == 1) continue;
    if (errno != ENOSPC) return 1;
    return remove_run(run_).kept.empty() && !std::filesystem::exists(run_) ? 0 : 2;
  });
  if (code == test::kNotPermitted) GTEST_SKIP() << "this user may not mount a small file system";
  EXPECT_EQ(code, 0);
}

TEST_F(RemoveRunTest, LinksLeadNowhere) {
  test::write_ended_run(run_);
  temporary_.write("precious/file", "x");
  std::filesystem::create_directories(run_ / "checkpoints");
  std::filesystem::create_directory_symlink(temporary_.path() / "precious", run_ / "checkpoints" / "step-1");
  std::filesystem::create_directory_symlink(temporary_.path() / "precious", run_ / "tensorboard");
  std::filesystem::create_directory_symlink(run_, temporary_.path() / "link");
  EXPECT_THAT(refusal(temporary_.path() / "link"), HasSubstr("is a link"));
  EXPECT_THAT(refusal(temporary_.path() / "link" / ""), HasSubstr("is a link"));
  EXPECT_THAT(refusal(temporary_.path() / "link" / "."), HasSubstr("is a link"));
  remove_run(run_);
  EXPECT_TRUE(std::filesystem::exists(temporary_.path() / "precious" / "file"));
  EXPECT_FALSE(std::filesystem::exists(run_));
}

TEST_F(RemoveRunTest, WhatGoesOnAndWhatIsNoRunIsRefused) {
  std::filesystem::create_directories(run_);
  write_status(run_, test::status_with(RunState::running));
  EXPECT_THAT(refusal(run_), HasSubstr("is running"));
  write_status(run_, test::status_with(RunState::stopping));
  EXPECT_THAT(refusal(run_), HasSubstr("is stopping"));
  const std::filesystem::path blank = temporary_.path() / "my run";
  std::filesystem::create_directories(blank);
  write_status(blank, test::status_with(RunState::running));
  EXPECT_THAT(refusal(blank), HasSubstr("lockstep stop '" + blank.string() + "'"));
  temporary_.write("photos/cat.png", "x");
  EXPECT_THAT(refusal(temporary_.path() / "photos"), HasSubstr("is not a run folder"));
  EXPECT_THAT(refusal(temporary_.path() / "none"), HasSubstr("No such file"));
  EXPECT_TRUE(std::filesystem::exists(temporary_.path() / "photos" / "cat.png"));
}

TEST_F(RemoveRunTest, ARunThatSomebodyHoldsIsRefused) {
  test::write_ended_run(run_);
  const RunFolder held = RunFolder::open(run_);
  EXPECT_THAT(refusal(run_), HasSubstr("another program is writing"));
  EXPECT_TRUE(std::filesystem::exists(run_ / "events"));
}

}  // namespace
}  // namespace lockstep::record
