// For tests of custom loops: a small network on made-up images, and workers for it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/losses.h"
#include "lockstep/nn/module.h"
#include "lockstep/pool/session.h"
#include "lockstep/train/custom/shard_sums.h"

namespace lockstep::train::test {

// Noise, brighter in one half for each class.
class Halves : public data::Datastore {
 public:
  explicit Halves(int64_t count, uint64_t listing = 1) : count_(count), listing_(listing) {}
  int64_t size() const override { return count_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index % 2; }
  std::string source(int64_t index) const override { return "half " + std::to_string(index); }
  data::ImageSize image_size(int64_t) const override { return {1, 6, 6}; }
  uint64_t listing_hash() const override { return listing_; }
  void read_to(int64_t index, const data::PixelSink& sink) const override {
    const auto pixels = sink(image_size(index));
    uint32_t state = static_cast<uint32_t>(index) * 2654435761U + 1;
    for (size_t p = 0; p < pixels.size(); ++p) {
      state = state * 1664525U + 1013904223U;
      pixels[p] =
          static_cast<uint8_t>((state >> 25) + (static_cast<int64_t>(p / 18) == label(index) ? 60 : 0));
    }
  }

 private:
  int64_t count_;
  uint64_t listing_;
  std::vector<std::string> classes_{"above", "below"};
};

// Halves that count how many were decoded.
class CountedHalves : public Halves {
 public:
  using Halves::Halves;
  void read_to(int64_t index, const data::PixelSink& sink) const override {
    ++reads_;
    Halves::read_to(index, sink);
  }
  int64_t reads() const { return reads_; }

 private:
  mutable std::atomic<int64_t> reads_ = 0;
};

inline data::Dataset halves(int64_t count, uint64_t listing = 1) {
  return data::Dataset(std::make_shared<Halves>(count, listing));
}

struct NetImpl : torch::nn::Module {
  explicit NetImpl(const nn::NetworkInput& input)
      : convolution(input.channels, 4, 3),
        norm(4),
        head(4 * (input.height - 2) * (input.width - 2), input.classes) {
    register_module("convolution", convolution);
    register_module("norm", norm);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return head(torch::dropout(torch::relu(norm(convolution(x))).flatten(1), 0.2, is_training()));
  }
  torch::nn::Conv2d convolution;
  torch::nn::BatchNorm2d norm;
  torch::nn::Linear head;
};
TORCH_MODULE(Net);

inline nn::Network net() {
  return nn::network("net", [](const nn::NetworkInput& input) { return Net(input); });
}

struct Outcome {
  uint64_t hash = 0;
  double loss = 0;
  double accuracy = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

inline ModelLoss loss_of(const BuiltModel& model) {
  return [model](const data::Shard& shard) {
    return nn::cross_entropy_sum(model.forward(shard.input), shard.target);
  };
}

template <class F>
auto on_workers(int64_t workers, F f) {
  pool::Session session;
  const auto all = session.open_pool({.workers = workers, .quiet = true}).spmd(f);
  for (const auto& one : all) EXPECT_EQ(one, all.front()) << "ranks differ";
  return all.front();
}

inline std::string error_on_workers(int64_t workers, const std::function<void(pool::Worker&)>& f) {
  pool::Session session;
  try {
    session.open_pool({.workers = workers, .quiet = true}).spmd([f](pool::Worker& worker) { f(worker); });
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace lockstep::train::test
