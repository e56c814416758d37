#include <chrono>
#include <stop_token>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
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

}  // namespace
}  // namespace lockstep::cluster
