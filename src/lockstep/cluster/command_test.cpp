#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stop_token>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/cluster/command.h"

namespace lockstep::cluster {
namespace {

using namespace std::chrono_literals;

// It has closed its outputs, and goes on.
const std::vector<std::string> kSilent{"sh", "-c", "exec sleep 600 >&- 2>&-"};

TEST(RunCommand, EndsOneThatHasClosedItsOutputsAtTheLimit) {
  const CommandEnd end = run_command(kSilent, {.limit = 1s});
  EXPECT_TRUE(end.out_of_time);
}

TEST(RunCommand, EndsOneThatHasClosedItsOutputsAtAStop) {
  std::stop_source stop;
  const std::jthread later([&] {
    std::this_thread::sleep_for(200ms);
    stop.request_stop();
  });
  try {
    run_command(kSilent, {.limit = 600s, .stop = stop.get_token()});
    FAIL() << "it has ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
  }
}

TEST(RunCommand, HasTheStatusOfOneThatEndsAfterItsOutputs) {
  const CommandEnd end = run_command({"sh", "-c", "echo said; exec >&- 2>&-; sleep 0.2; exit 3"});
  EXPECT_EQ(end.status, 3);
  EXPECT_EQ(end.output, "said\n");
  EXPECT_FALSE(end.out_of_time);
}

class Programs : public testing::Test {
 protected:
  void TearDown() override { ::setenv("PATH", path_.c_str(), 1); }
  const std::string path_ = std::getenv("PATH");
};

TEST_F(Programs, AreFilesInTheFoldersOfPath) {
  const test::TemporaryFolder folder;
  const std::filesystem::path program = folder.write("bin/simulate", "#!/bin/sh\n");
  std::filesystem::create_directory(folder.path() / "bin/data");
  const std::string bin = (folder.path() / "bin").string();
  ::setenv("PATH", bin.c_str(), 1);
  EXPECT_FALSE(has_program("simulate")) << "it cannot be run";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  EXPECT_TRUE(has_program("simulate"));
  EXPECT_FALSE(has_program("data")) << "it is a folder";
  EXPECT_FALSE(has_program("sh"));
  for (const char* path : {"/nowhere:", ":/nowhere", "/nowhere::/none", ""}) {
    ::setenv("PATH", path, 1);
    EXPECT_TRUE(has_program("simulate", bin)) << path;
    EXPECT_FALSE(has_program("simulate")) << path;
  }
  ::unsetenv("PATH");
  EXPECT_TRUE(has_program("sh"));
}

}  // namespace
}  // namespace lockstep::cluster
