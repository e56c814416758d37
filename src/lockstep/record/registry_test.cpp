#include "lockstep/record/registry.h"

#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/record/test_runs.h"

namespace lockstep::record {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RegistryTest : public testing::Test {
 protected:
  RunList list() const { return RunRegistry(caches_).list({root_}); }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const RunSummary& run : list().runs)
      names.push_back(std::filesystem::path(run.folder).lexically_relative(root_).string());
    return names;
  }
  std::filesystem::path cache_file() const {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(caches_, none)) {
      if (entry.path().extension() == ".runs") return entry.path();
    }
    return {};
  }

  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path root_ = temporary_.path() / "root";
  const std::filesystem::path caches_ = temporary_.path() / "caches";
};

TEST_F(RegistryTest, FindsRunsAtAnyDepthAndNotInsideRuns) {
  test::write_ended_run(root_ / "b");
  test::write_ended_run(root_ / "a" / "deep" / "run");
  test::write_ended_run(root_ / "b" / "inside");
  test::write_ended_run(root_ / ".hidden" / "run");
  temporary_.write("root/photos/cat/1.png", "");
  EXPECT_THAT(names(), ElementsAre("a/deep/run", "b"));
  EXPECT_THAT(names(), ElementsAre("a/deep/run", "b"));  // from the cache
  EXPECT_EQ(RunRegistry(std::filesystem::path()).list({root_ / "b"}).runs.at(0).folder,
            (root_ / "b").string());
}

TEST_F(RegistryTest, LinksAreFollowedOnce) {
  test::write_ended_run(temporary_.path() / "elsewhere" / "run");
  std::filesystem::create_directories(root_);
  std::filesystem::create_directory_symlink(temporary_.path() / "elsewhere", root_ / "link");
  std::filesystem::create_directory_symlink(root_, root_ / "loop");
  std::filesystem::create_symlink(root_ / "none", root_ / "broken");
  EXPECT_THAT(names(), ElementsAre("link/run"));
  EXPECT_EQ(RunRegistry(caches_).list({root_, root_, temporary_.path() / "elsewhere"}).runs.size(), 1U);
}

TEST_F(RegistryTest, ALinkToAFolderAboveTheRootIsNotFollowed) {
  test::write_ended_run(temporary_.path() / "elsewhere" / "run");
  test::write_ended_run(root_ / "mine");
  std::filesystem::create_directory_symlink(temporary_.path(), root_ / "above");
  std::filesystem::create_directory_symlink("/", root_ / "all");
  EXPECT_THAT(names(), ElementsAre("mine"));
}

TEST_F(RegistryTest, WhatMayNotBeReadIsAWarning) {
  test::write_ended_run(root_ / "run");
  std::filesystem::create_directories(root_ / "closed");
  std::filesystem::permissions(root_ / "closed", std::filesystem::perms::none);
  std::filesystem::permissions(temporary_.path(), std::filesystem::perms(0755));
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::seteuid(kNobody) != 0) ::_exit(2);  // root may read everything
    const RunList found = list();
    ::_exit(found.runs.size() == 1 && found.warnings.size() == 1 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  std::filesystem::permissions(root_ / "closed", std::filesystem::perms::all);
  EXPECT_EQ(status, 0);
}

TEST_F(RegistryTest, ARootThatIsNoFolderIsRefused) {
  EXPECT_THROW(list(), Error);
  temporary_.write("root", "");
  EXPECT_THROW(list(), Error);
}

TEST_F(RegistryTest, ARunThatChangesIsReadAgain) {
  test::write_ended_run(root_ / "run", 0.5);
  EXPECT_EQ(list().runs.at(0).accuracy, 0.5);
  Result result;
  result.accuracy = 0.25;
  write_result(root_ / "run", result);
  EXPECT_EQ(list().runs.at(0).accuracy, 0.25);
  const int64_t bytes = list().runs.at(0).bytes;
  temporary_.write("root/run/report.html", std::string(1000, 'x'));
  EXPECT_EQ(list().runs.at(0).bytes, bytes + 1000);
  write_status(root_ / "run", test::status_with(RunState::running));
  EXPECT_EQ(list().runs.at(0).state, RunState::running);
  std::filesystem::remove_all(root_ / "run");
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(RegistryTest, OldRunsAreKeptToo) {
  test::write_log(root_ / "run", 0);
  EXPECT_EQ(list().runs.at(0).state, RunState::ended);
  EXPECT_EQ(list().runs.at(0).accuracy, 0.5);
  EXPECT_THAT(read_file(cache_file()), HasSubstr("\"run\""));
  test::write_log(root_ / "run", 1, "stopped");
  EXPECT_EQ(list().runs.at(0).state, RunState::stopped);
}

TEST_F(RegistryTest, RunsThatGoOnAreNotKept) {
  write_status((std::filesystem::create_directories(root_ / "run"), root_ / "run"),
               test::status_with(RunState::running));
  EXPECT_EQ(list().runs.at(0).state, RunState::running);
  EXPECT_EQ(cache_file(), std::filesystem::path());
}

TEST_F(RegistryTest, ADamagedCacheIsIgnored) {
  for (int i = 0; i < 20; ++i) test::write_ended_run(root_ / ("run-" + std::to_string(i)), 0.5);
  EXPECT_EQ(list().runs.size(), 20U);
  const std::string good = read_file(cache_file());
  for (size_t at = 0; at < good.size(); at += 97) {
    std::string bad = good;
    bad[at] = bad[at] == 'x' ? 'y' : 'x';
    std::ofstream(cache_file()) << bad;
    const RunList found = list();
    ASSERT_EQ(found.runs.size(), 20U) << at;
    for (const RunSummary& run : found.runs) ASSERT_EQ(run.accuracy, 0.5) << at;
  }
  std::ofstream(cache_file()) << good.substr(0, good.size() / 2);
  EXPECT_EQ(list().runs.size(), 20U);
  std::ofstream(cache_file()) << std::string(100'000, '\0');
  EXPECT_EQ(list().runs.size(), 20U);
}

TEST_F(RegistryTest, SeveralProcessesUseOneCache) {
  for (int i = 0; i < 30; ++i) test::write_ended_run(root_ / ("run-" + std::to_string(i)));
  std::vector<pid_t> children;
  for (int child = 0; child < 6; ++child) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    bool all = true;
    for (int i = 0; i < 10; ++i) {
      std::filesystem::last_write_time(root_ / ("run-" + std::to_string(child)),
                                       std::filesystem::file_time_type::clock::now());
      all = all && RunRegistry(caches_).list({root_}).runs.size() == 30;
    }
    ::_exit(all ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(list().runs.size(), 30U);
}

TEST_F(RegistryTest, WithoutACacheEverythingIsRead) {
  test::write_ended_run(root_ / "run");
  EXPECT_EQ(RunRegistry(std::filesystem::path()).list({root_}).runs.size(), 1U);
  temporary_.write("caches", "a file where the folder should be");
  EXPECT_EQ(list().runs.size(), 1U);
}

}  // namespace
}  // namespace lockstep::record
