// train::fit from C++: a user's own network, observers, stops at awkward moments.
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/lockstep.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSide = 8;
constexpr int64_t kStepsPerEpoch = 9;

// Noise, with a bright corner for each class.
class Corners : public data::Datastore {
 public:
  explicit Corners(int64_t count, uint32_t seed = 1, std::function<void(int64_t)> on_read = {})
      : count_(count), seed_(seed), on_read_(std::move(on_read)) {}
  int64_t size() const override { return count_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index % 3; }
  std::string source(int64_t index) const override { return "corner " + std::to_string(index); }
  data::ImageSize image_size(int64_t) const override { return {1, kSide, kSide}; }
  uint64_t listing_hash() const override { return seed_; }
  void read_to(int64_t index, const data::PixelSink& sink) const override {
    if (on_read_) on_read_(index);
    const auto pixels = sink(image_size(index));
    uint32_t state = (static_cast<uint32_t>(index) + seed_) * 2654435761U;
    for (uint8_t& pixel : pixels)
      pixel = static_cast<uint8_t>((state = state * 1664525U + 1013904223U) >> 25);
    pixels[label(index) == 0 ? 0 : label(index) == 1 ? kSide - 1 : kSide * kSide - 1] = 255;
  }

 private:
  int64_t count_;
  uint32_t seed_;
  std::function<void(int64_t)> on_read_;
  std::vector<std::string> classes_{"left", "right", "below"};
};

data::Dataset corners(int64_t count, uint32_t seed = 1, std::function<void(int64_t)> on_read = {}) {
  return data::Dataset(std::make_shared<Corners>(count, seed, std::move(on_read)));
}

struct OwnNetImpl : torch::nn::Module {
  explicit OwnNetImpl(const nn::NetworkInput& input)
      : convolution(torch::nn::Conv2dOptions(input.channels, 6, 3)),
        norm(6),
        cumulative(torch::nn::BatchNormOptions(10).momentum(torch::nullopt)),
        middle(6 * (input.height - 2) * (input.width - 2), 10),
        dropout(0.3),
        head(10, input.classes) {
    register_module("convolution", convolution);
    register_module("norm", norm);
    register_module("cumulative", cumulative);
    register_module("middle", middle);
    register_module("dropout", dropout);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto features = torch::relu(norm(convolution(x))).flatten(1);
    return head(dropout(cumulative(middle(torch::dropout(features, 0.1, is_training())))));
  }
  torch::nn::Conv2d convolution;
  torch::nn::BatchNorm2d norm;
  torch::nn::BatchNorm1d cumulative;
  torch::nn::Linear middle;
  torch::nn::Dropout dropout;
  torch::nn::Linear head;
};
TORCH_MODULE(OwnNet);

OwnNet make_own_net(const nn::NetworkInput& input) { return OwnNet(input); }

struct CountingNetImpl : torch::nn::Module {
  explicit CountingNetImpl(const nn::NetworkInput& input)
      : head(input.channels * input.height * input.width, input.classes) {
    register_module("head", head);
    calls = register_buffer("calls", torch::zeros({1}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    calls += 1;
    return head(x.flatten(1));
  }
  torch::nn::Linear head;
  torch::Tensor calls;
};

// Its gradients are too large for 16 bits until the loss is scaled by less.
struct LoudNetImpl : torch::nn::Module {
  explicit LoudNetImpl(const nn::NetworkInput& input)
      : head(input.channels * input.height * input.width, input.classes) {
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(x.flatten(1)) * 100; }
  torch::nn::Linear head;
};

class FitTest : public ::testing::Test {
 protected:
  train::Options options_of(const std::string& run, int64_t workers) const {
    train::Options options;
    options.workers = workers;
    options.shards = 8;
    options.mini_batch_size = 7;  // fewer samples than shards, and a last mini-batch of 5
    options.max_epochs = 3;
    options.validate_every = 4;
    options.patience = 0;
    options.learning_rate = 0.05;
    options.output = (folder_ / run).string();
    return options;
  }

  static train::TrainingRequest own_job() {
    train::TrainingRequest request;
    request.dataset = corners(61);
    request.validation = corners(20, 100);
    request.network = nn::network<make_own_net>("own");
    return request;
  }

  std::string bytes(const std::string& run, const char* file = "model.safetensors") const {
    return read_file(folder_ / run / file, 1 << 24);
  }
  void expect_same(const std::string& a, const std::string& b) const {
    EXPECT_EQ(bytes(a), bytes(b));
    EXPECT_EQ(bytes(a, "best.safetensors"), bytes(b, "best.safetensors"));
  }

  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path& folder_ = temporary_.path();
};

TEST_F(FitTest, OwnNetworkHasTheSameBitsForAnyNumberOfWorkers) {
  const train::Result one = fit(own_job(), options_of("1", 1));
  EXPECT_EQ(one.reason, train::EndReason::finished);
  EXPECT_EQ(one.steps, 3 * kStepsPerEpoch);
  EXPECT_GT(one.best_accuracy, 0.5);
  for (const int64_t workers : {2, 3, 8}) {
    const std::string run = std::to_string(workers);
    const train::Result other = fit(own_job(), options_of(run, workers));
    EXPECT_EQ(other.accuracy, one.accuracy);
    EXPECT_EQ(other.loss, one.loss);
    expect_same("1", run);
  }
}

// As in a task of a pool, with its worker's communicator.
TEST_F(FitTest, TheRanksOfAGroupTrainOneNetwork) {
  const train::Result alone = fit(own_job(), options_of("alone", 2));
  for (const int64_t ranks : {2, 3}) {
    const std::string run = "ranks-" + std::to_string(ranks);
    const auto memory = comm::GroupMemory::make(ranks);
    std::vector<train::Result> results(static_cast<size_t>(ranks));
    {
      std::vector<std::jthread> threads;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
          const auto comm = comm::make_communicator(memory, rank);
          train::TrainingRequest request = own_job();
          request.comm = comm.get();
          results[static_cast<size_t>(rank)] = fit(request, options_of(run, ranks - 1));
        });
      }
    }
    expect_same("alone", run);
    for (const train::Result& result : results) {
      EXPECT_EQ(result.accuracy, alone.accuracy);
      EXPECT_EQ(result.loss, alone.loss);
      EXPECT_EQ(result.steps, alone.steps);
      EXPECT_EQ(result.weights, folder_ / run / "model.safetensors");
    }
  }
}

TEST_F(FitTest, HalfPrecisionSkipsTheStepsOfAllWorkersWhoseGradientsOverflow) {
  train::TrainingRequest request = own_job();
  request.network =
      nn::network("loud", [](const nn::NetworkInput& input) { return std::make_shared<LoudNetImpl>(input); });
  const auto options_with = [&](const std::string& run, int64_t workers, double clip) {
    train::Options options = options_of(run, workers);
    options.precision = train::Precision::fp16_mixed;
    options.learning_rate = 1e-4;
    options.optimizer = train::OptimizerKind::adam;
    options.gradient_clip = clip;
    options.hash_every = 1;
    return options;
  };
  for (const double clip : {0.0, 1.0}) {
    const std::string name = clip > 0 ? "clipped " : "loud ";
    for (const int64_t workers : {1, 2, 3}) {
      std::map<int64_t, std::string> hashes;  // after each step
      std::set<int64_t> skipped;              // steps
      int64_t count = 0;
      request.observer = [&](const record::Event& event) {
        if (event.kind == "hash") hashes[event.step] = record::text(event, "weights");
        if (event.kind == "message" && event.values.contains("skipped_steps")) {
          skipped.insert(event.step);
          count = event.values["skipped_steps"];
        }
        return record::Control::go;
      };
      const train::Result result = fit(request, options_with(name + std::to_string(workers), workers, clip));
      EXPECT_EQ(result.steps, 3 * kStepsPerEpoch);
      EXPECT_THAT(skipped, testing::SizeIs(testing::AllOf(count, testing::Ge(3), testing::Le(8))));
      ASSERT_EQ(hashes.size(), 27U);
      for (int64_t step = 2; step <= 27; ++step)
        EXPECT_EQ(hashes[step] == hashes[step - 1], skipped.contains(step)) << "step " << step;
      expect_same(name + "1", name + std::to_string(workers));
    }
    int64_t last_step = 2;
    request.observer = [&](const record::Event& event) {
      return event.kind == "step" && event.step == last_step ? record::Control::stop : record::Control::go;
    };
    fit(request, options_with(name + "parts", 1, clip));
    train::Options options = options_with(name + "parts", 3, clip);
    options.resume = true;
    for (const int64_t step : {5, 13, 28}) {
      last_step = step;
      fit(request, options);
    }
    expect_same(name + "1", name + "parts");
  }
}

TEST_F(FitTest, HalfPrecisionHasTheSameBitsForAnyNumberOfWorkers) {
  for (const int64_t workers : {1, 2, 3}) {
    train::Options options = options_of("half-" + std::to_string(workers), workers);
    options.precision = train::Precision::fp16_mixed;
    EXPECT_GT(fit(own_job(), options).best_accuracy, 0.5);
    expect_same("half-1", "half-" + std::to_string(workers));
  }
  fit(own_job(), options_of("single", 1));
  EXPECT_NE(bytes("half-1"), bytes("single"));
}

TEST_F(FitTest, RunsAtTheSameTimeDoNotDisturbEachOther) {
  fit(own_job(), options_of("alone", 1));
  {
    const std::jthread first([&] { fit(own_job(), options_of("first", 2)); });
    const std::jthread second([&] { fit(own_job(), options_of("second", 3)); });
  }
  expect_same("alone", "first");
  expect_same("alone", "second");
}

TEST_F(FitTest, ChangingBufferIsRefusedByName) {
  train::TrainingRequest request = own_job();
  request.network = nn::network(
      "counting", [](const nn::NetworkInput& input) { return std::make_shared<CountingNetImpl>(input); });
  try {
    fit(request, options_of("counting", 2));
    FAIL() << "a buffer of its own went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_option);
    EXPECT_THAT(error.what(), HasSubstr("\"calls\""));
  }
}

TEST_F(FitTest, ObserverStopsAndResumeWithOtherWorkersGivesTheSameBits) {
  fit(own_job(), options_of("whole", 2));
  train::TrainingRequest request = own_job();
  int64_t last_step = 4;
  request.observer = [&](const record::Event& event) {
    return event.kind == "step" && event.step == last_step ? record::Control::stop : record::Control::go;
  };
  EXPECT_EQ(fit(request, options_of("parts", 1)).reason, train::EndReason::observer);
  train::Options options = options_of("parts", 3);
  options.resume = true;
  for (const int64_t step : {5, 9, 13, 26}) {
    last_step = step;
    const train::Result result = fit(request, options);
    EXPECT_EQ(result.reason, train::EndReason::observer);
    EXPECT_EQ(result.steps, step);
    EXPECT_TRUE(std::filesystem::exists(result.weights));
    options.workers = step % 8 + 1;
  }
  EXPECT_EQ(fit(own_job(), options).reason, train::EndReason::finished);
  expect_same("whole", "parts");
  EXPECT_EQ(fit(own_job(), options).reason, train::EndReason::already_finished);
  expect_same("whole", "parts");
}

// The validation data stop the run while they are read: the step stands, the validation is made again at
// resume, and the best weights are those of that step.
TEST_F(FitTest, StopInsideAValidation) {
  for (const int64_t validate_every : {4, 27}) {
    const std::string whole = "whole" + std::to_string(validate_every),
                      parts = "parts" + std::to_string(validate_every);
    train::Options options = options_of(whole, 2);
    options.validate_every = validate_every;
    const train::Result expected = fit(own_job(), options);

    std::stop_source source;
    train::TrainingRequest request = own_job();
    request.validation = corners(20, 100, [&](int64_t index) {
      if (index == 9) source.request_stop();
    });
    request.stop = source.get_token();
    options.output = (folder_ / parts).string();
    const train::Result stopped = fit(request, options);
    EXPECT_EQ(stopped.reason, train::EndReason::stopped);
    EXPECT_EQ(stopped.steps, validate_every);
    EXPECT_FALSE(std::filesystem::exists(stopped.weights));

    options.resume = true;
    options.workers = 3;
    const train::Result resumed = fit(own_job(), options);
    EXPECT_EQ(resumed.reason, train::EndReason::finished);
    EXPECT_EQ(resumed.accuracy, expected.accuracy);
    EXPECT_EQ(resumed.best_accuracy, expected.best_accuracy);
    expect_same(whole, parts);
  }
}

TEST_F(FitTest, TestDataAreScoredAtTheEndAlsoWhenPatienceEndsTheRun) {
  train::TrainingRequest request = own_job();
  request.test = corners(30, 500);
  const train::Result whole = fit(request, options_of("whole", 2));
  EXPECT_GT(whole.test_accuracy, 0.3);
  train::Options options = options_of("impatient", 2);
  options.patience = 1;
  options.max_epochs = 50;
  const train::Result impatient = fit(request, options);
  EXPECT_EQ(impatient.reason, train::EndReason::patience);
  EXPECT_LT(impatient.steps, 50 * kStepsPerEpoch);
  EXPECT_GT(impatient.test_accuracy, 0.3);
}

TEST_F(FitTest, SmallFolderIsTrainedForAsManyStepsAsItNeeds) {
  train::TrainingRequest request = own_job();
  request.dataset = corners(90);
  request.validation = {};
  const train::Result result = fit(request, {.workers = 2, .output = (folder_ / "small").string()});
  EXPECT_GE(result.steps, 60);  // one an epoch
  EXPECT_GT(result.best_accuracy, 0.9);
}

TEST_F(FitTest, FolderTooSmallToHoldImagesOutIsTrainedToTheEnd) {
  train::TrainingRequest request = own_job();
  const data::Dataset many = corners(90);
  std::vector<int64_t> one_of_each;
  for (int64_t label = 0; label < static_cast<int64_t>(many.classes().size()); ++label) {
    for (int64_t i = 0; static_cast<int64_t>(one_of_each.size()) == label; ++i) {
      if (many.store().label(i) == label) one_of_each.push_back(i);
    }
  }
  request.dataset = many.subset(one_of_each);
  request.validation = {};
  const train::Result result =
      fit(request, {.workers = 2, .max_epochs = 9, .output = (folder_ / "tiny").string()});
  EXPECT_EQ(result.reason, train::EndReason::finished);
  EXPECT_EQ(result.steps, 9);
  EXPECT_TRUE(std::isnan(result.accuracy));
}

TEST_F(FitTest, ThrowingObserverEndsTheRunWithItsErrorAndResumeGoesOn) {
  fit(own_job(), options_of("whole", 1));
  train::TrainingRequest request = own_job();
  request.observer = [](const record::Event& event) -> record::Control {
    if (event.kind == "step" && event.step == 12) throw std::runtime_error("the observer's own");
    return record::Control::go;
  };
  EXPECT_THROW(fit(request, options_of("broken", 3)), std::runtime_error);
  train::Options options = options_of("broken", 2);
  options.resume = true;
  EXPECT_EQ(fit(own_job(), options).reason, train::EndReason::finished);
  expect_same("whole", "broken");
}

}  // namespace
}  // namespace lockstep
