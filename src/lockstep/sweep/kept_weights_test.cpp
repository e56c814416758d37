#include "lockstep/sweep/internal/kept_weights.h"

#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::sweep {
namespace {

namespace fs = std::filesystem;

TEST(KeptWeights, AreThoseOfTheBestInWhateverOrderTrialsEnd) {
  const test::TemporaryFolder folder;
  std::vector<Trial> trials{{.number = 0, .state = TrialState::ended, .value = 0.3},
                            {.number = 1, .state = TrialState::early, .value = 0.9},
                            {.number = 2, .state = TrialState::ended, .value = 0.5},
                            {.number = 3, .state = TrialState::failed},
                            {.number = 4, .state = TrialState::running, .value = 0.1}};
  SweepSpec spec{.command = {"train", "data"}};
  spec.options.keep_weights = 2;
  const SweepPaths paths{folder.path()};
  const auto weights = [&](int64_t trial) { return record::RunPaths{paths.trial(trial)}.weights(); };
  for (size_t turns = 0; turns < trials.size(); ++turns) {
    for (const Trial& trial : trials) {
      make_folders(paths.trial(trial.number));
      write_file_atomic(weights(trial.number), "weights");
    }
    KeptWeights kept(paths, spec);
    for (const Trial& trial : trials) kept.take(trial);
    for (const Trial& trial : trials) kept.take(trial);
    std::vector<int64_t> left;
    for (int64_t trial = 0; trial < 5; ++trial) {
      if (fs::exists(weights(trial))) left.push_back(trial);
    }
    EXPECT_THAT(left, testing::ElementsAre(0, 2, 4)) << turns;
    std::rotate(trials.begin(), trials.begin() + 1, trials.end());
  }
}

}  // namespace
}  // namespace lockstep::sweep
