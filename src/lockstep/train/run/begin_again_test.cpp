// Runs that would begin again with a lower learning rate, and are told to end in that step.
#include <filesystem>

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/data/images_in_memory.h"
#include "lockstep/record/status_file.h"
#include "lockstep/train/run/fit.h"

namespace lockstep::train {
namespace {

// Noise of 16x16, brighter in one half for each class.
data::Dataset noisy_halves() {
  std::vector<uint8_t> pixels;
  std::vector<int64_t> labels;
  uint32_t state = 1;
  for (int64_t image = 0; image < 200; ++image) {
    labels.push_back(image % 2);
    for (int64_t pixel = 0; pixel < 256; ++pixel) {
      state = state * 1664525U + 1013904223U;
      pixels.push_back(static_cast<uint8_t>((state >> 24) % 180 + (pixel / 128 == image % 2 ? 60 : 0)));
    }
  }
  return data::make_images({1, 16, 16}, {"above", "below"}, pixels, labels);
}

// Inputs a hundred times too large for a network without batch norms, and a rate that nobody gave.
Result train_until_it_explodes(const std::filesystem::path& output, const record::Observer& observer,
                               bool resume = false) {
  TrainingRequest request;
  request.dataset = noisy_halves();
  request.observer = observer;
  Options options;
  options.output = output.string();
  options.network = "lenet";
  options.optimizer = OptimizerKind::sgdm;
  options.normalize = "0,0.01";
  options.max_epochs = 4;
  options.workers = 2;
  options.execution = Execution::cpu;
  options.resume = resume;
  if (!resume) request.given = {"network", "optimizer", "normalize", "max-epochs", "workers", "execution"};
  return fit(request, options);
}

TEST(BeginAgain, AnObserverThatStopsInThatStepStopsTheRun) {
  const lockstep::test::TemporaryFolder folder;
  const auto weights = [&](const char* run) {
    return read_file(folder.path() / run / "model.safetensors", 1 << 24);
  };
  train_until_it_explodes(folder.path() / "whole", {});
  bool was_told = false;
  int64_t steps_after = 0;
  const Result stopped = train_until_it_explodes(folder.path() / "run", [&](const record::Event& event) {
    if (was_told && event.kind == "first_step") ++steps_after;
    if (event.kind != "message" || record::text(event, "text").find("starts again") == std::string::npos)
      return record::Control::go;
    was_told = true;
    return record::Control::stop;
  });
  ASSERT_TRUE(was_told) << "it did not explode";
  EXPECT_EQ(steps_after, 0) << "it began again";
  EXPECT_EQ(stopped.reason, EndReason::stopped);
  EXPECT_EQ(record::read_status(folder.path() / "run")->state, record::RunState::stopped);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "run" / "model.safetensors"));
  EXPECT_EQ(train_until_it_explodes(folder.path() / "run", {}, /*resume=*/true).reason, EndReason::finished);
  EXPECT_EQ(weights("run"), weights("whole"));
}

}  // namespace
}  // namespace lockstep::train
