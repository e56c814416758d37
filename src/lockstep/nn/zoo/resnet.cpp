#include "lockstep/nn/zoo/zoo.h"

#include <array>
#include <string>

namespace lockstep::nn {
namespace {

struct ResnetConvolution {
  int64_t filters;
  int64_t kernel;
  int64_t stride;
  int64_t padding;
};

void convolve(Json& layers, const std::string& name, const ResnetConvolution& options,
              const std::string& norm, const std::string& input) {
  layers.push_back({{"name", name},
                    {"type", "conv2d"},
                    {"inputs", Json::array({input})},
                    {"filters", options.filters},
                    {"kernel", options.kernel},
                    {"stride", options.stride},
                    {"padding", options.padding},
                    {"bias", false},
                    {"initializer", "he-fan-out"}});
  layers.push_back({{"name", norm}, {"type", "batch_norm"}});
}

/// Two convolutions and a shortcut; if the shape changes, the shortcut is a convolution too. Returns the name
/// of the last layer.
std::string basic_block(Json& layers, const std::string& name, const std::string& input, int64_t filters,
                        bool changes_shape, int64_t stride) {
  convolve(layers, name + ".conv1", {filters, 3, stride, 1}, name + ".bn1", input);
  layers.push_back({{"name", name + ".relu1"}, {"type", "relu"}});
  convolve(layers, name + ".conv2", {filters, 3, 1, 1}, name + ".bn2", name + ".relu1");
  std::string shortcut = input;
  if (changes_shape) {
    shortcut = name + ".downsample.1";
    convolve(layers, name + ".downsample.0", {filters, 1, stride, 0}, shortcut, input);
  }
  layers.push_back(
      {{"name", name + ".add"}, {"type", "add"}, {"inputs", Json::array({name + ".bn2", shortcut})}});
  layers.push_back({{"name", name + ".relu2"}, {"type", "relu"}});
  return name + ".relu2";
}

/// 1x1 to few channels, 3x3 with the stride, 1x1 to four times as many channels, and a shortcut. Returns the
/// name of the last layer.
std::string bottleneck_block(Json& layers, const std::string& name, const std::string& input, int64_t filters,
                             bool changes_shape, int64_t stride) {
  convolve(layers, name + ".conv1", {filters, 1, 1, 0}, name + ".bn1", input);
  layers.push_back({{"name", name + ".relu1"}, {"type", "relu"}});
  convolve(layers, name + ".conv2", {filters, 3, stride, 1}, name + ".bn2", name + ".relu1");
  layers.push_back({{"name", name + ".relu2"}, {"type", "relu"}});
  convolve(layers, name + ".conv3", {4 * filters, 1, 1, 0}, name + ".bn3", name + ".relu2");
  std::string shortcut = input;
  if (changes_shape) {
    shortcut = name + ".downsample.1";
    convolve(layers, name + ".downsample.0", {4 * filters, 1, stride, 0}, shortcut, input);
  }
  layers.push_back(
      {{"name", name + ".add"}, {"type", "add"}, {"inputs", Json::array({name + ".bn3", shortcut})}});
  layers.push_back({{"name", name + ".relu3"}, {"type", "relu"}});
  return name + ".relu3";
}

using Block = std::string (*)(Json& layers, const std::string& name, const std::string& input,
                              int64_t filters, bool changes_shape, int64_t stride);

/// A stem, four stages of blocks and a linear layer. `first_changes`: the first stage's first block has a
/// convolution as its shortcut.
Json resnet(const char* name, Block block, const std::array<int64_t, 4>& blocks, bool first_changes) {
  Json layers = Json::array();
  convolve(layers, "conv1", {64, 7, 2, 3}, "bn1", "input");
  layers.push_back({{"name", "relu"}, {"type", "relu"}});
  layers.push_back({{"name", "maxpool"}, {"type", "max_pool"}, {"kernel", 3}, {"stride", 2}, {"padding", 1}});
  std::string last = "maxpool";
  for (int64_t stage = 1; stage <= 4; ++stage) {
    const std::string group = "layer" + std::to_string(stage) + ".";
    const int64_t filters = int64_t{32} << stage;
    for (int64_t i = 0; i < blocks[static_cast<size_t>(stage - 1)]; ++i) {
      last = block(layers, group + std::to_string(i), last, filters, i == 0 && (stage > 1 || first_changes),
                   i == 0 && stage > 1 ? 2 : 1);
    }
  }
  layers.push_back({{"name", "avgpool"}, {"type", "global_average_pool"}});
  layers.push_back({{"name", "flatten"}, {"type", "flatten"}});
  layers.push_back({{"name", "fc"}, {"type", "linear"}, {"features", "classes"}});
  return {{"name", name}, {"layers", layers}};
}

}  // namespace

Json resnet18() { return resnet("resnet18", basic_block, {2, 2, 2, 2}, false); }

Json resnet50() { return resnet("resnet50", bottleneck_block, {3, 4, 6, 3}, true); }

}  // namespace lockstep::nn
