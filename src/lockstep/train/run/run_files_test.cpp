#include "lockstep/train/run/run_files.h"

#include <cstdlib>

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

  // The options.json of a run, with these values in its plan.
  std::filesystem::path write_with(const char* values, int64_t format = 2) const {
    Prepared prepared;
    prepared.plan.network.name = "mlp";
    prepared.plan.data.classes = {"cat", "dog"};
    const std::filesystem::path path = folder_.path() / "options.json";
    write_manifest(path, Options{}, prepared);
    Json manifest = Json::parse(read_file(path));
    const Json changed = Json::parse(values);
    manifest["format"] = format;
    if (format == 1) {
      manifest["plan"] = values_of(prepared.plan);
      manifest["plan"].update(changed);
    }
    for (Json& part : manifest["plan"]) {
      for (const auto& [name, value] : changed.items()) {
        if (part.is_object() && part.contains(name)) part[name] = value;
      }
    }
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
    for (const int64_t format : {1, 2}) EXPECT_EQ(refusal(write_with(plan, format)), "") << plan;
  }
}

// As a run wrote it before plans had parts: what came later, and what nobody knows any more, is no fault.
TEST_F(RunFiles, APlanOfFormat1IsRead) {
  const char* source = std::getenv("LOCKSTEP_SOURCE");
  if (source == nullptr) GTEST_SKIP() << "LOCKSTEP_SOURCE is not set";
  const auto manifest =
      read_manifest(std::filesystem::path(source) / "tests/fuzz/seeds/manifest/options.json");
  ASSERT_TRUE(manifest.has_value());
  const Plan& plan = manifest->plan;
  EXPECT_EQ(plan.network.name, "mlp");
  EXPECT_EQ(plan.network.input, (nn::NetworkInput{1, 28, 28, 2}));
  EXPECT_EQ(plan.network.parameter_count, 234'114);
  EXPECT_EQ(plan.data.format, (data::ImageFormat{.channels = 1, .height = 28, .width = 28}));
  EXPECT_EQ(plan.data.classes, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(plan.data.train_count, 36);
  EXPECT_EQ(plan.data.listing_hash, "d413a20a7919de53");
  EXPECT_EQ(plan.step.mini_batch_size, 36);
  EXPECT_EQ(plan.step.precision, Precision::single);
  EXPECT_EQ(plan.update.learning_rate, 0.01);
  EXPECT_EQ(plan.length.total_steps, 1);
  EXPECT_EQ(plan.machine.cores, 2);
  EXPECT_THAT(plan.machine.fingerprint, HasSubstr("libtorch 2.11.0"));
}

TEST_F(RunFiles, WhatAFlatPlanLeavesOutIsTheOptions) {
  Options options;
  options.resize = data::Resize::pad;
  options.sequence_padding = data::PaddingSide::left;
  const Json flat{{"channels", 3}, {"height", 1}, {"width", 1}, {"time_steps", 9}, {"decode", "fast"}};
  const data::ImageFormat expected{.channels = 3,
                                   .height = 1,
                                   .width = 9,
                                   .resize = data::Resize::pad,
                                   .kind = data::SampleKind::sequence,
                                   .padding = data::PaddingSide::left,
                                   .decode = data::Decode::fast};
  EXPECT_EQ(read_flat_plan(flat, options).data.format, expected);
}

TEST_F(RunFiles, APlanIsReadAsItWasWritten) {
  Plan plan;
  plan.network.name = "mlp";
  plan.network.input = {3, 20, 30, 2};
  plan.network.freeze = {"0", "1.*"};
  plan.data.format = {.channels = 3, .height = 20, .width = 30, .resize = data::Resize::crop};
  plan.data.mean = {0.1, 0.2, 1.0 / 3};
  plan.data.classes = {"cat", "dog"};
  plan.data.augment = data::Augment::parse("flip,color-jitter,mixup=0.2");
  plan.update.learning_rate = 0.1 + 0.2;
  plan.machine.devices = {0, 3};
  plan.lines = {{"shards", "8", "asked for"}};
  const Plan read = read_plan(Json::parse(lockstep::to_json(plan).dump()));
  EXPECT_EQ(lockstep::to_json(read), lockstep::to_json(plan));
  EXPECT_EQ(read.data.format, plan.data.format);
  EXPECT_EQ(read.network.input, plan.network.input);
}

// One object holds the values of all parts in events and in manifests of format 1.
TEST_F(RunFiles, NoTwoPartsOfAPlanHaveAValueOfTheSameName) {
  const Json parts = lockstep::to_json(Plan{});
  size_t count = 0;
  for (const Json& part : parts) count += part.is_object() ? part.size() : 0;
  EXPECT_EQ(values_of(Plan{}).size(), count + 1) << "and the warnings";
}

TEST_F(RunFiles, AManifestOfALaterFormatIsRefused) {
  EXPECT_THAT(refusal(write_with("{}", 3)), HasSubstr("its format is 3, and this build reads 1 to 2"));
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
    for (const int64_t format : {1, 2}) EXPECT_NE(refusal(write_with(plan, format)), "") << plan;
  }
  EXPECT_THAT(refusal(write_with(R"({"channels":2,"height":5,"width":7})")), HasSubstr("samples of 2x5x7"));
}

// Its default would be another amount of memory, or other weights.
TEST_F(RunFiles, APlanWithoutAVitalValueIsRefused) {
  for (const char* key : {"channels", "height", "width", "classes", "mini_batch_size", "shards"}) {
    for (const int64_t format : {1, 2}) {
      Json manifest = Json::parse(read_file(write_with("{}", format)));
      manifest["plan"].erase(key);
      for (Json& part : manifest["plan"]) {
        if (part.is_object()) part.erase(key);
      }
      EXPECT_THAT(refusal(write(manifest.dump())), HasSubstr(std::string("its plan has no \"") + key + '"'));
    }
  }
}

// As batch norms computed before there were groups: over a shard.
TEST_F(RunFiles, APlanWithoutAGroupOfBatchNormHasNone) {
  for (const int64_t format : {1, 2}) {
    Json manifest = Json::parse(read_file(write_with(R"({"batch_norm_group":16})", format)));
    const std::filesystem::path with = write(manifest.dump());
    EXPECT_EQ(read_manifest(with)->plan.step.batch_norm_group, 16);
    manifest["plan"].erase("batch_norm_group");
    for (Json& part : manifest["plan"]) {
      if (part.is_object()) part.erase("batch_norm_group");
    }
    EXPECT_EQ(read_manifest(write(manifest.dump()))->plan.step.batch_norm_group, 0);
  }
}

// Everything that a run has besides its weights may change when it is resumed.
TEST_F(RunFiles, OptionsSayWhatTheyAffect) {
  for (const FieldInfo& field : fields_of<Options>())
    EXPECT_NE(field.traits.affects, Affects::unstated) << field.name;
  EXPECT_THAT(options_free_at_resume(),
              testing::ElementsAre("test", "memory-share", "cache", "cache-size", "execution", "workers",
                                   "devices", "worker-load", "prefetch", "resident", "cuda-graphs", "overlap",
                                   "report-score-after-averaging", "max-time", "pause-after-step", "patience",
                                   "on-out-of-memory", "output", "resume", "checkpoint-every", "hash-every",
                                   "detect-anomaly", "plot", "timing", "verbose"));
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
              HasSubstr("its plan is not a JSON object"));
}

}  // namespace
}  // namespace lockstep::train
