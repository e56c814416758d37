// What the tests of train::fit from C++ share: data that are made, networks of a user's own, options.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/lockstep.h"

namespace lockstep {

inline constexpr int64_t kSide = 8;
inline constexpr int64_t kStepsPerEpoch = 9;

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

inline data::Dataset corners(int64_t count, uint32_t seed = 1, std::function<void(int64_t)> on_read = {}) {
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

inline OwnNet make_own_net(const nn::NetworkInput& input) { return OwnNet(input); }

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
  explicit LoudNetImpl(const nn::NetworkInput& input, double loudness = 100)
      : head(input.channels * input.height * input.width, input.classes), factor(loudness) {
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(x.flatten(1)) * factor; }
  torch::nn::Linear head;
  double factor;
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

}  // namespace lockstep
