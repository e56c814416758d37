// Samples and networks for the tests of training on pools.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "lockstep/data/sequences.h"
#include "lockstep/nn/module.h"

namespace lockstep {

// A bright corner says which of four classes an image is.
class Corners : public data::Datastore {
 public:
  explicit Corners(int64_t count) : count_(count) {}
  int64_t size() const override { return count_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return index % 4; }
  std::string source(int64_t index) const override { return "corner " + std::to_string(index); }
  data::ImageSize image_size(int64_t) const override { return {1, 8, 8}; }
  void read_to(int64_t index, const data::PixelSink& sink) const override {
    ++reads;
    const auto pixels = sink({1, 8, 8});
    for (size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<uint8_t>((static_cast<size_t>(index) * 31 + i * 7) % 90);
    const size_t first = (index % 2 == 1 ? 4U : 0U) + (index % 4 >= 2 ? 32U : 0U);
    for (size_t row = 0; row < 4; ++row) {
      for (size_t column = 0; column < 4; ++column) pixels[first + row * 8 + column] = 255;
    }
  }
  uint64_t listing_hash() const override { return static_cast<uint64_t>(count_); }
  std::string identity() const override { return "corners " + std::to_string(count_); }
  static inline std::atomic<int64_t> reads = 0;

 private:
  int64_t count_;
  std::vector<std::string> classes_{"a", "b", "c", "d"};
};

inline data::Dataset corners(int64_t count) { return data::Dataset(std::make_shared<Corners>(count)); }

// Loses its head over one image, the tenth.
struct BrokenNetImpl : torch::nn::Module {
  explicit BrokenNetImpl(const nn::NetworkInput& input)
      : head(input.channels * input.height * input.width, input.classes) {
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor pixels = x.flatten(1);
    const torch::Tensor tenth = (pixels.select(1, 63) * 255 - 31).abs() < 0.5;
    return head(pixels).masked_fill(tenth.unsqueeze(1), std::numeric_limits<double>::quiet_NaN());
  }
  torch::nn::Linear head;
};
TORCH_MODULE(BrokenNet);
inline BrokenNet make_broken_net(const nn::NetworkInput& input) { return BrokenNet(input); }

// As a user writes it, without a graph that could travel.
struct PlainNetImpl : torch::nn::Module {
  explicit PlainNetImpl(const nn::NetworkInput& input)
      : head(input.channels * input.height * input.width, input.classes) {
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(x.flatten(1)); }
  torch::nn::Linear head;
};
TORCH_MODULE(PlainNet);
inline PlainNet make_plain_net(const nn::NetworkInput& input) { return PlainNet(input); }

// Series of 3 to 8 time steps, of which the class is in the level.
inline data::Dataset series(int64_t count) {
  std::vector<data::Sequence> sequences;
  for (int64_t i = 0; i < count; ++i) {
    data::Sequence& one = sequences.emplace_back();
    one.label = i % 2;
    for (int64_t step = 0; step < 2 * (3 + i % 6); ++step)
      one.values.push_back(static_cast<float>((i % 2) * 2 - 1) +
                           0.1F * static_cast<float>((i * 7 + step * 3) % 5));
  }
  return data::make_sequences(2, {"low", "high"}, std::move(sequences));
}

}  // namespace lockstep
