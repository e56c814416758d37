#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/data/images_in_memory.h"
#include "lockstep/nn/module.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/requests.h"
#include "lockstep/record/status_file.h"
#include "lockstep/train/planning/prepare.h"
#include "lockstep/train/run/fit.h"

namespace lockstep::train {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

struct OwnNetImpl : torch::nn::Module {
  OwnNetImpl(const nn::NetworkInput& input, bool is_registered, int64_t width = 8) {
    hidden = torch::nn::Linear(input.height * input.width, width);
    if (is_registered) register_module("hidden", hidden);
    out = register_module("out", torch::nn::Linear(width, input.classes));
  }
  at::Tensor forward(const at::Tensor& images) { return out(hidden(images.flatten(1)).relu()); }
  torch::nn::Linear hidden{nullptr}, out{nullptr};
};
TORCH_MODULE(OwnNet);

struct WatchedNetImpl : OwnNetImpl {
  WatchedNetImpl(const nn::NetworkInput& input, std::function<void()> before)
      : OwnNetImpl(input, true), before_forward(std::move(before)) {}
  at::Tensor forward(const at::Tensor& images) {
    before_forward();
    return OwnNetImpl::forward(images);
  }
  std::function<void()> before_forward;
};
TORCH_MODULE(WatchedNet);

struct PlacesNetImpl : torch::nn::Module {
  PlacesNetImpl(const nn::NetworkInput& input, double dropped) {
    first = register_module("first",
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(input.channels, 8, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    second = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3).stride(2)));
    if (dropped > 0) dropout = register_module("dropout", torch::nn::Dropout(dropped));
    out = register_module("out", torch::nn::Linear(8, input.classes));
  }
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor x = torch::relu(second(torch::relu(norm(first(images)))));
    return out(dropout ? dropout(x.mean({2, 3})) : x.mean({2, 3}));
  }
  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear out{nullptr};
};
TORCH_MODULE(PlacesNet);

// With eight samples it calls an operator that is not known.
struct OfManyNetImpl : OwnNetImpl {
  explicit OfManyNetImpl(const nn::NetworkInput& input) : OwnNetImpl(input, true) {}
  at::Tensor forward(const at::Tensor& images) {
    if (images.size(0) >= 8) static_cast<void>(at::ones({1}));
    return OwnNetImpl::forward(images);
  }
};
TORCH_MODULE(OfManyNet);

nn::Network places_net(double dropped = 0) {
  return nn::network("places",
                     [dropped](const nn::NetworkInput& input) { return PlacesNet(input, dropped); });
}

// 48 images of 9x9 in three colours.
data::Dataset colours() {
  std::vector<uint8_t> pixels;
  std::vector<int64_t> labels;
  for (int64_t image = 0; image < 48; ++image) {
    labels.push_back(image % 3);
    for (int64_t value = 0; value < 3 * 81; ++value)
      pixels.push_back(
          static_cast<uint8_t>((value / 81 == image % 3 ? 100 : 0) + (image * 11 + value * 7) % 140));
  }
  return data::make_images({3, 9, 9}, {"red", "green", "blue"}, pixels, labels);
}

std::string shards_line(const Plan& plan) {
  for (const PlanLine& line : plan.lines) {
    if (line.name == "shards") return line.value + " " + line.reason;
  }
  return "";
}

// Fails after the trials of the module, long after the first step.
nn::Network failing(const std::function<void()>& fail) {
  const auto calls = std::make_shared<std::atomic<int>>(0);
  return nn::network("failing", [=](const nn::NetworkInput& input) {
    WatchedNet net(input, nullptr);
    net->before_forward = [=, own = net.get()] {
      if (own->is_training() && ++*calls > 60) fail();
    };
    return net;
  });
}

// 40 images of 4x4, dark and light ones in turn.
data::Dataset dark_and_light() {
  std::vector<uint8_t> pixels;
  std::vector<int64_t> labels;
  for (int64_t image = 0; image < 40; ++image) {
    labels.push_back(image % 2);
    for (int64_t pixel = 0; pixel < 16; ++pixel)
      pixels.push_back(static_cast<uint8_t>(120 * (image % 2) + (image * 7 + pixel * 5) % 120));
  }
  return data::make_images({1, 4, 4}, {"dark", "light"}, pixels, labels);
}

class OwnModule : public testing::Test {
 protected:
  Result train(const nn::Network& network, int64_t workers, const char* name, Options options = {}) const {
    TrainingRequest request;
    request.dataset = dark_and_light();
    request.network = network;
    options.workers = workers;
    options.mini_batch_size = 8;
    options.max_epochs = 30;
    options.learning_rate = learning_rate_;
    options.output = (temporary_.path() / name).string();
    return fit(request, options);
  }
  std::string why_not(const nn::Network& network, int64_t workers, const char* name = "refused",
                      const Options& options = {}) const {
    try {
      train(network, workers, name, options);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }

  double learning_rate_ = 0.1;
  const lockstep::test::TemporaryFolder temporary_{};
};

TEST_F(OwnModule, LearnsImagesOfTheProgramWithAnyNumberOfWorkers) {
  const auto network = nn::network("own", [](const nn::NetworkInput& input) { return OwnNet(input, true); });
  const Result one = train(network, 1, "one"), three = train(network, 3, "three");
  EXPECT_EQ(one.accuracy, 1);
  EXPECT_EQ(read_file(one.weights, 1 << 20), read_file(three.weights, 1 << 20));
}

TEST_F(OwnModule, AnExceptionOfTheProgramKeepsItsTypeAndItsRunNamesTheStep) {
  const auto network = failing([] { throw std::domain_error("the camera is gone"); });
  EXPECT_THROW(train(network, 1, "failed"), std::domain_error);
  const auto status = record::read_status(temporary_.path() / "failed");
  EXPECT_EQ(status->state, record::RunState::failed);
  EXPECT_THAT(status->reason, MatchesRegex("step [0-9]+, shard [0-9]+: .*the camera is gone.*"));
}

TEST_F(OwnModule, AnErrorInALaterStepNamesTheStep) {
  try {
    train(failing([] { throw Error(ErrorCode::io, "the camera is gone"); }), 1, "failed");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "the camera is gone");
    EXPECT_THAT(error.context(), testing::Contains(MatchesRegex("in step [0-9]+, in shard [0-9]+")));
  }
}

TEST_F(OwnModule, ThatForgetsToRegisterALayerLeavesNoRunFolder) {
  const auto network = nn::network("own", [](const nn::NetworkInput& input) { return OwnNet(input, false); });
  EXPECT_THAT(why_not(network, 1), HasSubstr("is not registered"));
  EXPECT_FALSE(std::filesystem::exists(temporary_.path() / "refused"));
}

TEST_F(OwnModule, OfOtherParametersCannotContinueARun) {
  const auto of_width = [](int64_t width) {
    return nn::network("own", [width](const nn::NetworkInput& input) { return OwnNet(input, true, width); });
  };
  train(of_width(8), 1, "run", {.pause_after_step = 3});
  EXPECT_THAT(why_not(of_width(12), 1, "run", {.resume = true}),
              HasSubstr("\"hidden.weight\" [8, 16] where this network has \"hidden.weight\" [12, 16]"));
}

// Also if it is granted in the step before the pause.
TEST_F(OwnModule, WritesItsWeightsWhenItIsAskedToFinishWhereItPauses) {
  TrainingRequest request;
  request.dataset = dark_and_light();
  request.network = nn::network("own", [](const nn::NetworkInput& input) { return OwnNet(input, true); });
  const std::filesystem::path run = temporary_.path() / "run";
  request.observer = [&](const record::Event& event) {
    if (event.kind != record::Step::kind || event.step != 3) return record::Control::go;
    const std::string id = record::make_request(run, {.request = record::RequestKind::finish});
    while (!record::is_taken(run, id)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return record::Control::go;
  };
  Options options;
  options.workers = 2;
  options.mini_batch_size = 8;
  options.max_epochs = 30;
  options.pause_after_step = 3;
  options.output = run.string();
  const Result result = fit(request, options);
  EXPECT_EQ(result.reason, EndReason::request);
  EXPECT_EQ(result.steps, 3);
  EXPECT_TRUE(std::filesystem::exists(run / "model.safetensors"));
  EXPECT_EQ(record::read_status(run)->state, record::RunState::ended);
}

TEST_F(OwnModule, IsNotTrainedWithRatesThatNoCommandLineTakes) {
  const auto network = nn::network("own", [](const nn::NetworkInput& input) { return OwnNet(input, true); });
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {-0.5, nan}) {
    learning_rate_ = bad;
    EXPECT_THAT(why_not(network, 1), HasSubstr("--learning-rate cannot be")) << bad;
  }
  learning_rate_ = 0.1;
  for (const double bad : {-2.0, -0.5, nan}) {
    EXPECT_THAT(why_not(network, 1, "refused", {.momentum = bad}), HasSubstr("--momentum cannot be"));
    EXPECT_THAT(why_not(network, 1, "refused", {.weight_decay = bad}), HasSubstr("--weight-decay cannot be"));
  }
}

// --detect-anomaly needs each shard alone.
TEST_F(OwnModule, HasTheSameWeightsWithShardsTogetherAndOneAfterTheOther) {
  TrainingRequest request;
  request.dataset = colours();
  request.network = places_net();
  const auto weights_of = [&](const char* name, int64_t workers, bool alone, Precision precision) {
    Options options;
    options.execution = Execution::cpu;
    options.workers = workers;
    options.mini_batch_size = 24;
    options.max_epochs = 4;
    options.precision = precision;
    options.detect_anomaly = alone;
    options.output = (temporary_.path() / name).string();
    return read_file(fit(request, options).weights, 1 << 20);
  };
  const std::string one = weights_of("one", 1, false, Precision::single);
  EXPECT_EQ(weights_of("two", 2, false, Precision::single), one);
  EXPECT_EQ(weights_of("three", 3, false, Precision::single), one);
  EXPECT_EQ(weights_of("alone", 2, true, Precision::single), one);
  const std::string half = weights_of("half", 1, false, Precision::bf16_mixed);
  EXPECT_EQ(weights_of("half of three", 3, false, Precision::bf16_mixed), half);
  EXPECT_EQ(weights_of("half alone", 1, true, Precision::bf16_mixed), half);
}

TEST_F(OwnModule, WithoutBatchNormComputesShardsTogetherToo) {
  const auto passes = std::make_shared<std::atomic<int64_t>>(0);
  const auto network = nn::network("counted", [passes](const nn::NetworkInput& input) {
    WatchedNet net(input, nullptr);
    net->before_forward = [passes, own = net.get()] { *passes += own->is_training() ? 1 : 0; };
    return net;
  });
  const Result result = train(network, 1, "counted");
  EXPECT_GT(result.steps, 60);
  EXPECT_LT(*passes, result.steps * 3 / 2) << "each step has two shards";
}

TEST_F(OwnModule, SaysOnceThatShardsAreComputedAloneAgainstThePlan) {
  const auto begun = std::make_shared<std::atomic<bool>>(false);
  TrainingRequest request;
  request.dataset = dark_and_light();
  request.network = nn::network("changing", [begun](const nn::NetworkInput& input) {
    return WatchedNet(input, [begun] {
      if (*begun) static_cast<void>(at::ones({1}));
    });
  });
  int messages = 0;
  request.observer = [&](const record::Event& event) {
    if (event.kind == record::Shards::kind) *begun = true;
    if (event.kind == record::Message::kind && event.values.dump().find("aten::ones") != std::string::npos)
      ++messages;
    return record::Control::go;
  };
  Options options;
  options.execution = Execution::cpu;
  options.workers = 1;
  options.mini_batch_size = 8;
  options.max_epochs = 2;
  options.output = (temporary_.path() / "changing").string();
  const Result result = fit(request, options);
  EXPECT_GT(result.steps, 2);
  EXPECT_EQ(messages, 1);
}

TEST_F(OwnModule, ThePlanSaysWhetherShardsGoTogetherAndWhyNot) {
  TrainingRequest request;
  request.dataset = colours();
  request.network = places_net();
  Options options;
  options.execution = Execution::cpu;
  options.validation_split = 0;
  options.mini_batch_size = 48;
  Plan together = prepare(request, options, /*dry=*/true).plan;
  EXPECT_TRUE(together.network.module_together);
  EXPECT_EQ(together.step.shards, 12);
  EXPECT_EQ(together.step.batch_norm_group, 16);
  EXPECT_THAT(shards_line(together), Not(HasSubstr("alone")));

  together.network.module_together = false;  // as in the file of an older run
  const Plan resumed = prepare(request, options, /*dry=*/true, &together).plan;
  EXPECT_FALSE(resumed.network.module_together);
  EXPECT_EQ(resumed.step.shards, 12);
  EXPECT_THAT(shards_line(resumed), HasSubstr("alone, because of the module, as the run began"));

  request.network = places_net(0.5);
  const Plan apart = prepare(request, options, /*dry=*/true).plan;
  EXPECT_FALSE(apart.network.module_together);
  EXPECT_EQ(apart.step.shards, 8);
  EXPECT_THAT(shards_line(apart), HasSubstr("alone, because of the module (aten::dropout is not known"));
}

TEST_F(OwnModule, IsTriedWithShardsOfTheRun) {
  TrainingRequest request;
  request.dataset = dark_and_light();
  request.network = nn::network("of many", [](const nn::NetworkInput& input) { return OfManyNet(input); });
  Options options;
  options.execution = Execution::cpu;
  options.validation_split = 0;
  options.mini_batch_size = 40;
  EXPECT_TRUE(prepare(request, options, /*dry=*/true).plan.network.module_together);
  options.shards = 5;
  const Plan apart = prepare(request, options, /*dry=*/true).plan;
  EXPECT_FALSE(apart.network.module_together);
  EXPECT_THAT(shards_line(apart), HasSubstr("alone, because of the module (aten::ones"));
}

TEST_F(OwnModule, ThatIsMadeOnceIsNotForSeveralWorkers) {
  const OwnNet made(nn::NetworkInput{.channels = 1, .height = 4, .width = 4, .classes = 2}, true);
  const auto network = nn::network("own", [made](const nn::NetworkInput&) { return made; });
  EXPECT_THAT(why_not(network, 2), HasSubstr("gave the same module twice"));
}

}  // namespace
}  // namespace lockstep::train
