#include "lockstep/nn/layer_times.h"

#include <gtest/gtest.h>

#include "lockstep/base/json.h"
#include "lockstep/nn/layers.h"

namespace lockstep::nn {
namespace {

Network network_of(const char* layers) { return read_network(parse_json(layers), "drawn"); }

TEST(LayerTimes, AWideLayerTakesMostOfTheTime) {
  const auto times =
      layer_times(network_of(R"([{"type": "conv2d", "filters": 24, "kernel": 3}, {"type": "relu"},
      {"type": "conv2d", "filters": 128, "kernel": 5}, {"type": "relu"}, {"type": "global_average_pool"},
      {"type": "flatten"}, {"type": "linear", "features": "classes"}])"),
                  {.channels = 1, .height = 32, .width = 32}, 128);  // long beside a busy machine's pauses
  ASSERT_EQ(times.size(), 7u);
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_LE(times[i].forward_seconds, times[2].forward_seconds) << i;
    EXPECT_LE(times[i].backward_seconds, times[2].backward_seconds) << i;
  }
  EXPECT_GT(times[0].backward_seconds, 0);
}

TEST(LayerTimes, OfBranchesAndOfSequences) {
  const auto times = layer_times(find_network("resnet18"), {.channels = 3, .height = 32, .width = 32}, 2);
  EXPECT_EQ(
      times.size(),
      inspect_network(find_network("resnet18"), {.channels = 3, .height = 32, .width = 32}).rows.size());
  const auto lstm = layer_times(find_network("lstm_classifier"),
                                {.channels = 12, .height = 1, .width = 1, .time_steps = 20}, 4);
  EXPECT_GT(lstm[0].backward_seconds, lstm[1].backward_seconds);
}

}  // namespace
}  // namespace lockstep::nn
