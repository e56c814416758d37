#include <array>
#include <string>

#include "lockstep/nn/zoo/zoo.h"

namespace lockstep::nn {
namespace {

struct MobileNetConvolution {
  int64_t filters;
  int64_t kernel;
  int64_t stride;
  int64_t groups;
};

void convolve(Json& layers, const std::string& name, const std::string& norm,
              const MobileNetConvolution& options) {
  layers.push_back({{"name", name},
                    {"type", "conv2d"},
                    {"filters", options.filters},
                    {"kernel", options.kernel},
                    {"stride", options.stride},
                    {"padding", options.kernel / 2},
                    {"groups", options.groups},
                    {"bias", false},
                    {"initializer", "he-fan-out"}});
  layers.push_back({{"name", norm}, {"type", "batch_norm"}});
}

/// A convolution, batch norm and ReLU6: NAME.0, NAME.1, NAME.2.
void activated(Json& layers, const std::string& name, const MobileNetConvolution& options) {
  convolve(layers, name + ".0", name + ".1", options);
  layers.push_back({{"name", name + ".2"}, {"type", "relu6"}});
}

/// Widens by `expansion`, applies a 3x3 depthwise convolution, and narrows again without an activation; with
/// a shortcut if the shapes allow it.
void inverted_residual(Json& layers, const std::string& name, int64_t inputs, int64_t filters,
                       int64_t expansion, int64_t stride) {
  const std::string input = layers.back()["name"];
  const int64_t hidden = inputs * expansion;
  int64_t part = 0;
  const auto next = [&] { return name + ".conv." + std::to_string(part++); };
  if (expansion != 1) activated(layers, next(), {hidden, 1, 1, 1});
  activated(layers, next(), {hidden, 3, stride, hidden});
  const std::string narrow = next(), norm = next();
  convolve(layers, narrow, norm, {filters, 1, 1, 1});
  if (stride == 1 && inputs == filters)
    layers.push_back({{"name", name + ".add"}, {"type", "add"}, {"inputs", Json::array({input, norm})}});
}

struct Stage {
  int64_t expansion;
  int64_t filters;
  int64_t blocks;
  int64_t stride;  ///< stride of the first block
};
constexpr std::array<Stage, 7> kStages{{{1, 16, 1, 1},
                                        {6, 24, 2, 2},
                                        {6, 32, 3, 2},
                                        {6, 64, 4, 2},
                                        {6, 96, 3, 1},
                                        {6, 160, 3, 2},
                                        {6, 320, 1, 1}}};

}  // namespace

Json mobilenet_v2() {
  Json layers = Json::array();
  activated(layers, "features.0", {32, 3, 2, 1});
  int64_t index = 1, channels = 32;
  for (const Stage& stage : kStages) {
    for (int64_t i = 0; i < stage.blocks; ++i) {
      inverted_residual(layers, "features." + std::to_string(index++), channels, stage.filters,
                        stage.expansion, i == 0 ? stage.stride : 1);
      channels = stage.filters;
    }
  }
  activated(layers, "features." + std::to_string(index), {1280, 1, 1, 1});
  layers.push_back({{"name", "avgpool"}, {"type", "global_average_pool"}});
  layers.push_back({{"name", "flatten"}, {"type", "flatten"}});
  layers.push_back({{"name", "classifier.0"}, {"type", "dropout"}, {"probability", 0.2}});
  layers.push_back(
      {{"name", "classifier.1"}, {"type", "linear"}, {"features", "classes"}, {"initializer", "normal"}});
  return {{"name", "mobilenet_v2"}, {"layers", layers}};
}

}  // namespace lockstep::nn
