#include "lockstep/base/test_folder.h"
#include "lockstep/train/tasks/parallel_wrapper.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include "lockstep/base/file.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/module.h"

namespace lockstep::train {
namespace {

struct DrawingNetImpl : torch::nn::Module {
  explicit DrawingNetImpl(const nn::NetworkInput& input)
      : convolution(torch::nn::Conv2dOptions(input.channels, 4, 3)),
        norm(4),
        dropout(0.3),
        head(4 * (input.height - 2) * (input.width - 2), input.classes) {
    register_module("convolution", convolution);
    register_module("norm", norm);
    register_module("dropout", dropout);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& x) {
    return head(dropout(torch::relu(norm(convolution(x))).flatten(1)));
  }

  torch::nn::Conv2d convolution;
  torch::nn::BatchNorm2d norm;
  torch::nn::Dropout dropout;
  torch::nn::Linear head;
};
TORCH_MODULE(DrawingNet);

class ParallelWrapperTest : public ::testing::Test {
 protected:
  Options options_of(const char* run, int64_t workers) const {
    Options options;
    options.output = (folder_ / run).string();
    options.workers = workers;
    options.execution = Execution::cpu;
    options.max_epochs = 2;
    return options;
  }

  static ParallelWrapper::Builder builder(Options options) {
    return ParallelWrapper::Builder(nn::find_network("mlp"), std::move(options))
        .workers(3)
        .averaging_frequency(2);
  }

  std::string weights(const char* run) const {
    return read_file(folder_ / run / "model.safetensors", 1 << 24);
  }

  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path& folder_ = temporary_.path();
};

// 50 grey images of 4 x 4 in mini-batches of 6.
std::vector<data::MiniBatch> mini_batches() {
  std::vector<data::MiniBatch> all;
  for (int64_t first = 0; first < 50; first += 6) {
    const int64_t count = std::min<int64_t>(6, 50 - first);
    const at::Tensor numbers = at::arange(first, first + count);
    all.push_back({(numbers.view({count, 1, 1, 1}) * 37 + at::arange(16).view({1, 1, 4, 4}) * 11)
                       .remainder(251)
                       .to(at::kByte),
                   numbers.remainder(4)});
  }
  return all;
}

// Begins anew after its end.
data::NextMiniBatch in_turn(std::vector<data::MiniBatch> batches) {
  return [batches = std::move(batches), next = size_t{0}]() mutable -> std::optional<data::MiniBatch> {
    if (next < batches.size()) return batches[next++];
    next = 0;
    return std::nullopt;
  };
}

// What draws at random, keeps statistics of its own, or has a state in the optimizer.
nn::Network drawing_network() {
  return nn::network("drawing", [](const nn::NetworkInput& input) { return DrawingNet(input); });
}

TEST_F(ParallelWrapperTest, DefaultsAreParallelWrappers) {
  const auto wrapper = ParallelWrapper::Builder(nn::find_network("mlp")).build();
  EXPECT_EQ(wrapper.options().exchange, ExchangeKind::average);
  EXPECT_EQ(wrapper.options().averaging_frequency, 1);
  EXPECT_EQ(wrapper.options().prefetch, 16);
  EXPECT_TRUE(wrapper.options().average_updaters);
  EXPECT_FALSE(wrapper.options().report_score_after_averaging);
  EXPECT_GE(wrapper.options().shards, 2);
  EXPECT_THROW(ParallelWrapper::Builder(nn::find_network("mlp")).workers(0), Error);
}

TEST_F(ParallelWrapperTest, FitsOnIteratorsAndCallables) {
  const auto batches = mini_batches();
  const Result one = builder(options_of("iterators", 1)).build().fit(batches.begin(), batches.end());
  EXPECT_EQ(one.reason, EndReason::finished);
  EXPECT_EQ(one.steps, 2 * 3);  // 9 mini-batches for 3 replicas, twice
  Options options = options_of("callable", 3);
  options.max_steps = 6;  // by which the cosine falls
  builder(options).build().fit(in_turn(batches));
  options = options_of("dataset", 2);
  options.shuffle = data::Shuffle::never;
  options.validation_split = 0;
  options.mini_batch_size = 6;
  builder(options).build().fit(data::collect(in_turn(batches)).dataset);
  EXPECT_EQ(weights("callable"), weights("iterators"));
  EXPECT_EQ(weights("dataset"), weights("iterators"));
}

TEST_F(ParallelWrapperTest, TheFirstStepIsTimedFromTheCall) {
  const auto batches = mini_batches();
  double seconds = -1;
  ParallelWrapper wrapper = builder(options_of("timed", 2))
                                .listener([&](const record::Event& event) {
                                  if (event.kind == "first_step") seconds = record::number(event, "seconds");
                                  return record::Control::go;
                                })
                                .build();
  std::this_thread::sleep_for(
      std::chrono::milliseconds(100));  // the process is older than the call, as one that a script became
  const auto start = std::chrono::steady_clock::now();
  wrapper.fit(batches.begin(), batches.end());
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

TEST_F(ParallelWrapperTest, StopFitEndsAfterTheStepWithALastAverage) {
  const auto batches = mini_batches();
  ParallelWrapper* running = nullptr;
  std::vector<int64_t> averages;
  Options options = options_of("stopped", 2);
  options.lr_schedule = ScheduleKind::constant;  // it does not depend on the run's length
  ParallelWrapper wrapper = builder(options)
                                .listener([&](const record::Event& event) {
                                  if (event.kind == "average") averages.push_back(event.step);
                                  if (event.kind == "step" && event.step == 3) running->stop_fit();
                                  return record::Control::go;
                                })
                                .build();
  running = &wrapper;
  const Result result = wrapper.fit(batches.begin(), batches.end());
  EXPECT_EQ(result.reason, EndReason::observer);
  EXPECT_EQ(result.steps, 3);
  EXPECT_EQ(averages, std::vector<int64_t>{2});
  options.output = options_of("three", 3).output;
  options.max_steps = 3;
  builder(options).build().fit(batches.begin(), batches.end());
  EXPECT_EQ(weights("stopped"), weights("three"));
}

struct Variant {
  const char* name;
  int64_t frequency;
  std::function<void(Options&)> change;
};

// A schedule that steps down at each pass, one that knows all steps, what each replica keeps for itself.
std::vector<Variant> variants() {
  return {
      {"sgdm", 3,
       [](Options& o) {
         o.lr_schedule = ScheduleKind::piecewise, o.lr_drop_period = 1, o.lr_drop_factor = 0.5,
         o.warmup_steps = 4;
       }},
      {"adam", 1,
       [](Options& o) { o.optimizer = OptimizerKind::adam, o.average_updaters = false, o.max_steps = 9; }},
      {"diloco", 3, [](Options& o) {
         o.outer_optimizer = OuterOptimizer::nesterov, o.lr_schedule = ScheduleKind::constant,
         o.averaging_warmup_steps = 2;
       }}};
}

TEST_F(ParallelWrapperTest, FitsOfOnePassEachAreOneFitOfAllPasses) {
  const auto batches = mini_batches();  // 9 for 3 replicas: 3 steps a pass
  for (const Variant& variant : variants()) {
    const auto made = [&](const std::string& run, int64_t workers, int64_t epochs) {
      Options options = options_of((variant.name + run).c_str(), workers);
      options.max_epochs = epochs;
      options.mini_batch_size = 6;
      options.augment = "shift=1";
      variant.change(options);
      return ParallelWrapper::Builder(drawing_network(), options)
          .workers(3)
          .averaging_frequency(variant.frequency);
    };
    const auto of = [&](const std::string& run) { return weights((variant.name + run).c_str()); };
    const data::Dataset dataset = data::collect(in_turn(batches)).dataset;
    made(" whole", 1, 3).build().fit(dataset);
    ParallelWrapper parts = made(" parts", 3, 1).build();
    for (int64_t pass = 1; pass <= 3; ++pass) {
      const Result result = parts.fit(dataset);
      EXPECT_EQ(result.epochs, pass);
      EXPECT_EQ(result.steps, 3 * pass);
    }
    EXPECT_EQ(of(" parts"), of(" whole")) << variant.name;

    made(" iterator whole", 2, 3).build().fit(batches.begin(), batches.end());
    ParallelWrapper streamed = made(" iterator parts", 3, 1).build();
    for (int64_t pass = 1; pass <= 3; ++pass) EXPECT_EQ(streamed.fit(in_turn(batches)).epochs, pass);
    EXPECT_EQ(of(" iterator parts"), of(" iterator whole")) << variant.name;
  }
}

TEST_F(ParallelWrapperTest, AFitGoesOnFromAStopInTheMiddleOfAPeriod) {
  const auto batches = mini_batches();
  Options options = options_of("goes on", 2);
  options.lr_schedule = ScheduleKind::constant;
  options.max_epochs = 1;
  std::vector<int64_t> averages;
  ParallelWrapper* running = nullptr;
  ParallelWrapper wrapper = builder(options)
                                .listener([&](const record::Event& event) {
                                  if (event.kind == "average") averages.push_back(event.step);
                                  if (event.kind == "step" && event.step == 5) running->stop_fit();
                                  return record::Control::go;
                                })
                                .build();
  running = &wrapper;
  EXPECT_EQ(wrapper.fit(in_turn(batches)).steps, 3);
  EXPECT_EQ(wrapper.fit(in_turn(batches)).reason, EndReason::observer);
  const Result last = wrapper.fit(in_turn(batches));
  EXPECT_EQ(last.steps, 8);  // the pass that was stopped is over
  EXPECT_EQ(last.epochs, 3);
  EXPECT_EQ(averages, (std::vector<int64_t>{2, 3, 4, 6, 8}));
}

TEST_F(ParallelWrapperTest, AFitThatThrowsInALaterPassLeavesTheTrainingUnchanged) {
  const auto batches = mini_batches();
  const auto made = [&](const char* run) {
    Options options = options_of(run, 2);
    options.lr_schedule = ScheduleKind::constant;
    return builder(options).build();
  };
  ParallelWrapper whole = made("whole");
  for (int fit = 0; fit < 2; ++fit) whole.fit(in_turn(batches));
  ParallelWrapper wrapper = made("throws");
  wrapper.fit(in_turn(batches));
  int64_t calls = 0;
  EXPECT_ANY_THROW(wrapper.fit([&, next = in_turn(batches)]() -> std::optional<data::MiniBatch> {
    if (++calls > 14) throw std::runtime_error("the camera is gone");  // in the second pass
    return next();
  }));
  EXPECT_GT(calls, 14);
  const Result last = wrapper.fit(in_turn(batches));
  EXPECT_EQ(last.epochs, 4);
  EXPECT_EQ(last.steps, 4 * 3);
  EXPECT_EQ(weights("throws"), weights("whole"));
}

TEST_F(ParallelWrapperTest, ACosineNeedsToKnowItsEnd) {
  const auto batches = mini_batches();
  const auto said = [](const std::function<void()>& work) -> std::string {
    try {
      work();
    } catch (const Error& error) {
      return error.message() + " " + error.hint();
    }
    return "nothing";
  };
  Options options = options_of("cosine", 1);
  EXPECT_THAT(said([&] { builder(options).build().fit(in_turn(batches)); }),
              testing::HasSubstr("which an iterator does not give"));
  ParallelWrapper wrapper = builder(options).build();
  wrapper.fit(batches.begin(), batches.end());
  EXPECT_THAT(said([&] { wrapper.fit(batches.begin(), batches.end()); }),
              testing::AllOf(testing::HasSubstr("ended with the first fit, after 6 steps"),
                             testing::HasSubstr("max_steps")));
}

TEST_F(ParallelWrapperTest, FloatsAreTakenAsTheyAre) {
  auto batches = mini_batches();
  for (data::MiniBatch& batch : batches)
    batch.images = batch.images.expand({batch.images.size(0), 3, 4, 4}).contiguous();
  builder(options_of("bytes", 2)).build().fit(batches.begin(), batches.end());
  for (data::MiniBatch& batch : batches) batch.images = batch.images.to(at::kFloat).div(255);
  builder(options_of("floats", 3)).build().fit(batches.begin(), batches.end());
  EXPECT_EQ(weights("floats"), weights("bytes"));
  for (data::MiniBatch& batch : batches) batch.images = batch.images.narrow(1, 0, 2);
  EXPECT_EQ(builder(options_of("two channels", 2)).build().fit(batches.begin(), batches.end()).steps, 6);
}

TEST_F(ParallelWrapperTest, AnIteratorsFaultsHaveANumber) {
  const auto said = [&](data::NextMiniBatch next, int64_t classes = 0) -> std::string {
    Options options = options_of("faults", 2);
    options.lr_schedule = ScheduleKind::constant;
    options.max_epochs = 1;
    ParallelWrapper::Builder made = builder(options).prefetch_buffer(3);
    if (classes > 0) made.classes(classes);
    std::filesystem::remove_all(folder_ / "faults");
    try {
      made.build().fit(next);
    } catch (const Error& error) {
      return error.message();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "nothing";
  };
  auto batches = mini_batches();
  EXPECT_THAT(said([] { return std::nullopt; }), testing::HasSubstr("there are no mini-batches to train on"));
  batches[6].labels += 9;
  EXPECT_THAT(said(in_turn(batches)),
              testing::HasSubstr("mini-batch 7 has the label 12, but there are 4 classes"));
  EXPECT_EQ(said(in_turn(batches), 13), "nothing");
  batches[6].images = batches[6].images.narrow(3, 0, 3);
  EXPECT_THAT(said(in_turn(batches), 13), testing::HasSubstr("mini-batch 7 has images of a different size"));
  int64_t calls = 0;
  EXPECT_THAT(said([&]() -> std::optional<data::MiniBatch> {
                return ++calls < 8 ? std::optional(mini_batches()[0])
                                   : throw std::runtime_error("the camera is gone");
              }),
              testing::HasSubstr("the camera is gone"));
}

}  // namespace
}  // namespace lockstep::train
