#include "lockstep/train/run/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::train {
namespace {

using testing::HasSubstr;

class RunFiles : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) const { return folder_.write("options.json", text); }

  // The options.json of a run, with this in its plan.
  std::filesystem::path write_with(const char* plan) const {
    Prepared prepared;
    prepared.plan.network = "mlp";
    prepared.plan.classes = {"cat", "dog"};
    const std::filesystem::path path = folder_.path() / "options.json";
    write_manifest(path, Options{}, prepared);
    Json manifest = Json::parse(read_file(path));
    manifest["plan"].update(Json::parse(plan));
    return write(manifest.dump());
  }

  static std::string refusal(const std::filesystem::path& path) {
    try {
      read_manifest(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
      EXPECT_THAT(error.message(), HasSubstr("options.json\" is damaged: "));
      return error.message();
    }
    return "";
  }

  const lockstep::test::TemporaryFolder folder_;
};

TEST_F(RunFiles, PlansThatRunsHaveAreRead) {
  for (const char* plan :
       {"{}", R"({"channels":3,"height":8192,"width":16384})", R"({"resize_to":[256,256]})",
        R"({"channels":20,"height":1,"width":1,"time_steps":16777216})"}) {
    EXPECT_EQ(refusal(write_with(plan)), "") << plan;
  }
}

// The sizes decide how much memory the samples get: 281474976710657 times 65,536 is 65,536 again in 64 bits.
TEST_F(RunFiles, SizesThatNoSampleHasAreRefused) {
  for (const char* plan : {R"({"channels":281474976710657,"height":256,"width":256})",
                           R"({"channels":2})",
                           R"({"channels":-1})",
                           R"({"channels":"3"})",
                           R"({"channels":3.0})",
                           R"({"channels":18446744073709551615})",
                           R"({"height":100000,"width":100000})",
                           R"({"height":0})",
                           R"({"width":-28})",
                           R"({"height":4294967296,"width":4294967296})",
                           R"({"time_steps":100,"height":28})",
                           R"({"time_steps":-1,"height":1,"width":1})",
                           R"({"channels":0,"height":1,"width":1,"time_steps":5})",
                           R"({"channels":4294967296,"height":1,"width":1,"time_steps":4294967296})",
                           R"({"resize_to":[256]})",
                           R"({"resize_to":[256,256,3]})",
                           R"({"resize_to":[100000,100000]})",
                           R"({"resize_to":[0,256]})",
                           R"({"resize_to":["256",256]})",
                           R"({"resize_to":256})",
                           R"({"mini_batch_size":0})",
                           R"({"shards":-1})",
                           R"({"shards":4611686018427387904})"}) {
    EXPECT_NE(refusal(write_with(plan)), "") << plan;
  }
  EXPECT_THAT(refusal(write_with(R"({"channels":2,"height":5,"width":7})")), HasSubstr("samples of 2x5x7"));
}

TEST_F(RunFiles, NoModelIsMadeOfSuchAPlan) {
  write_with(R"({"channels":281474976710657,"height":256,"width":256})");
  try {
    model_of_run(folder_.path(), "last",
                 nn::Network("own", [](const nn::NetworkInput&) -> nn::Instance { return {}; }));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
    EXPECT_THAT(error.message(), HasSubstr("281474976710657x256x256"));
  }
}

// An option that came after the run was begun had its default then.
TEST_F(RunFiles, ARunFromBeforeAnOptionGoesOn) {
  const Json here{{"--sample-order", "lockstep"}, {"shards", 8}};
  EXPECT_EQ(compare_fingerprints({{"shards", 8}}, here), "");
  const Json other{{"--sample-order", "distributed-sampler"}, {"shards", 8}};
  EXPECT_THROW(compare_fingerprints({{"shards", 8}}, other), Error);
  EXPECT_THROW(compare_fingerprints(other, here), Error);
}

TEST_F(RunFiles, JsonThatIsNestedTooDeepIsRefused) {
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  EXPECT_THAT(refusal(write(R"({"options":{},"network":0,"plan":)" + deep + "}")),
              HasSubstr("nested deeper"));
  EXPECT_THAT(refusal(write(R"({"options":{"seed":)" + deep + R"(},"network":0,"plan":{}})")),
              HasSubstr("nested deeper"));
  EXPECT_THAT(refusal(write("{\"options\":")), HasSubstr("parse error at line 1"));
  EXPECT_THAT(refusal(write("[]")), HasSubstr("does not hold the options of a run"));
  EXPECT_THAT(refusal(write(R"({"options":{},"network":0,"plan":[]})")),
              HasSubstr("its plan is no JSON object"));
}

}  // namespace
}  // namespace lockstep::train
