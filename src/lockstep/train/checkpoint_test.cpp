#include "lockstep/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/test_folder.h"

namespace lockstep::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Checkpoint, ReadsBackWhatItWrote) {
  const test::TemporaryFolder run;
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

// The manifest is written again to compare its hash, by recursion.
TEST(Checkpoint, AManifestNestedTooDeepIsDamaged) {
  const test::TemporaryFolder run;
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
