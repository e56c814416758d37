#include "lockstep/train/loop/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/test_folder.h"

namespace lockstep::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Checkpoint, ReadsBackWhatItWrote) {
  const lockstep::test::TemporaryFolder run;
  Snapshot snapshot;
  snapshot.state.step = 3;
  snapshot.state.best_loss = 0.1;
  snapshot.fingerprint = Json::parse(R"({"network":"mlp","classes":["cat","dog"],"rate":1e-3,"gone":null})");
  const std::filesystem::path folder = write_checkpoint(run.path(), snapshot);
  const auto checkpoint = last_checkpoint(run.path());
  ASSERT_TRUE(checkpoint.has_value());
  EXPECT_EQ(checkpoint->folder, folder);
  EXPECT_EQ(checkpoint->state.step, 3);
  EXPECT_EQ(checkpoint->state.best_loss, 0.1);
  EXPECT_EQ(checkpoint->fingerprint.dump(), snapshot.fingerprint.dump());
}

TEST(Checkpoint, KnowsTheTensorsOfItsOwnFiles) {
  const lockstep::test::TemporaryFolder run;
  Snapshot snapshot;
  snapshot.fingerprint = Json::object();
  snapshot.weights = {{"w", at::ones({2})}};
  snapshot.state.step = 3;
  snapshot.state.weights_hash = tensors_hash({{"w", at::zeros({2})}});
  const std::filesystem::path own = write_checkpoint(run.path(), snapshot) / "model.safetensors",
                              last = run.path() / "model.safetensors";
  EXPECT_EQ(weights_doubt(own, snapshot.weights), "");
  EXPECT_THAT(weights_doubt(own, {{"w", at::zeros({2})}}), HasSubstr("is not as the run saved it"));
  EXPECT_EQ(weights_doubt(last, snapshot.weights), "") << "the run goes on";
  run.write(
      "events/rank-0-attempt-0.jsonl",
      R"({"kind":"end","step":3,"epoch":1,"time":1,"rank":0,"attempt":0,"sequence":0,"values":{"reason":"stopped"}})"
      "\n");
  EXPECT_THAT(weights_doubt(last, {{"w", at::zeros({2})}}), HasSubstr("is of an earlier end of the run"));
  EXPECT_THAT(weights_doubt(last, snapshot.weights), HasSubstr("is not as the run saved it"));
  run.write("events/rank-0-attempt-1.jsonl", "");
  EXPECT_EQ(weights_doubt(last, snapshot.weights), "") << "it goes on again";
}

TEST(Checkpoint, TheLastOneIsThatOfTheLastStepWhateverItsDigits) {
  const lockstep::test::TemporaryFolder run;
  Snapshot snapshot;
  snapshot.fingerprint = Json::object();
  for (const int64_t step : {99'999'999, 100'000'000}) {
    snapshot.state.step = step;
    write_checkpoint(run.path(), snapshot);
    EXPECT_EQ(last_checkpoint(run.path())->state.step, step);
  }
}

// The manifest is written again, recursively, to compare its hash.
TEST(Checkpoint, AManifestNestedTooDeepIsDamaged) {
  const lockstep::test::TemporaryFolder run;
  run.write("checkpoints/step-00000001/manifest.json", std::string(500'000, '[') + std::string(500'000, ']'));
  run.write("checkpoints/step-00000001/DONE", "");
  try {
    last_checkpoint(run.path());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("manifest.json\" is damaged"), HasSubstr("nested deeper")));
  }
}

}  // namespace
}  // namespace lockstep::train
