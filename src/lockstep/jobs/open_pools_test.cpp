#include "lockstep/jobs/open_pools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/test_folder.h"

namespace lockstep::jobs {
namespace {

PoolRecord record_of(const std::string& program, double opened) {
  return {.program = program,
          .profile = "local",
          .kind = "processes",
          .host = host_name(),
          .process = ::getpid(),
          .opened = opened,
          .workers = {{.index = 0, .process = 7, .host = "here", .cores = "0-1"}}};
}

class OpenPools : public testing::Test {
 protected:
  test::TemporaryFolder test_;
  const std::filesystem::path folder_ = test_.path() / "pools";
};

TEST_F(OpenPools, AreListedWhileTheyAreOpen) {
  EXPECT_THAT(open_pools(folder_), testing::IsEmpty());
  const KeptRecord second(folder_, record_of("second", 2));
  {
    KeptRecord first(folder_, record_of("first", 1));
    first.set_workers({{.index = 0, .busy = true, .gpu = 3, .gpu_name = "<b>GPU</b>"}});
    const std::vector<PoolRecord> pools = open_pools(folder_);
    ASSERT_EQ(pools.size(), 2U);
    EXPECT_EQ(pools[0].program, "first");
    EXPECT_EQ(pools[0].workers.at(0).gpu_name, "<b>GPU</b>");
    EXPECT_TRUE(pools[0].workers.at(0).busy);
    EXPECT_EQ(pools[1].workers.at(0).cores, "0-1");
  }
  ASSERT_EQ(open_pools(folder_).size(), 1U);
  EXPECT_EQ(open_pools(folder_)[0].program, "second");
}

TEST_F(OpenPools, AreAskedToClose) {
  const KeptRecord kept(folder_, record_of("one", 1));
  const KeptRecord other(folder_, record_of("two", 2));
  EXPECT_FALSE(kept.is_asked_to_close());
  ask_to_close_pool(folder_, open_pools(folder_).at(0).id);
  EXPECT_TRUE(kept.is_asked_to_close());
  EXPECT_FALSE(other.is_asked_to_close());
  for (const char* name : {"", "..", "nothing", "../pools"})
    EXPECT_THROW(ask_to_close_pool(folder_, name), Error) << name;
}

TEST_F(OpenPools, OfAKilledProgramAreNotListedAndAreRemovedByTheNext) {
  const pid_t child = ::fork();
  if (child == 0) {
    const KeptRecord kept(folder_, record_of("killed", 1));
    ::_exit(0);  // without a destructor, as when it is killed
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(std::filesystem::is_empty(folder_));
  EXPECT_THAT(open_pools(folder_), testing::IsEmpty());
  { const KeptRecord next(folder_, record_of("next", 2)); }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(OpenPools, FilesThatAreNoRecordAreIgnored) {
  const KeptRecord kept(folder_, record_of("one", 1));
  make_folders(folder_ / "empty");
  write_file_atomic(folder_ / "file", "{}");
  write_file_atomic(folder_ / open_pools(folder_).at(0).id / "pool.json", "{\"workers\": 3");
  EXPECT_THAT(open_pools(folder_), testing::IsEmpty());
}

}  // namespace
}  // namespace lockstep::jobs
