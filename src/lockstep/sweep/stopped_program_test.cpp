// A person stops a trial of another program than train that waits for its next attempt.
#include <chrono>
#include <filesystem>
#include <stop_token>
#include <thread>

#include <gmock/gmock.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/sweep/engine.h"
#include "lockstep/sweep/internal/sweep_requests.h"

namespace lockstep::sweep {
namespace {

namespace fs = std::filesystem;

void wait_for(const fs::path& file) {
  while (!fs::exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// Both trials are cut short when the sweep stops. Trial 0 has the only place when it goes on.
TEST(StoppedProgram, IsStoppedAtOnceWithWhatItHadPrintedWhereverItWaits) {
  for (const bool shared : {false, true}) {
    const test::TemporaryFolder folder;
    const std::string go = folder.path() / "go", begun = folder.path() / "begun-";
    const SweepPaths paths{folder.path() / "sweep"};
    SweepSpec spec{.command = {"sh", "-c",
                               "echo result 0.25; touch " + begun + "$LOCKSTEP_TRIAL; until test -e " + go +
                                   "; do sleep 0.05; done",
                               "{x}"}};
    spec.space.add("x", "0.5..9.5");
    spec.options = {.search = SearchKind::random, .count = 2, .trials = 2};
    std::stop_source stop;
    const std::jthread person([&] {
      wait_for(begun + "0");
      wait_for(begun + "1");
      stop.request_stop();
    });
    EXPECT_FALSE(run_sweep(paths, spec, {.stop = stop.get_token()}).is_complete);
    fs::remove(begun + "0");
    spec.options.trials = 1;
    prepare_shared_sweep(paths, spec);
    std::jthread sweep([&] { EXPECT_TRUE(run_sweep(paths, spec, {.shared = shared}).is_complete); });
    wait_for(begun + "0");
    ask_to_stop(paths, 1);
    while (!requests_in(paths).empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const Row row = read_table(paths).rows.at(1);
    EXPECT_EQ(row.state, TrialState::stopped);
    EXPECT_EQ(row.value, 0.25);
    write_file_atomic(go, "");
    sweep.join();
    EXPECT_EQ(read_table(paths).rows.at(0).state, TrialState::ended);
    EXPECT_EQ(read_table(paths).rows.at(1).state, TrialState::stopped);
  }
}

}  // namespace
}  // namespace lockstep::sweep
