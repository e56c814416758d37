#include "lockstep/kernels/shards_together.h"

#include <map>
#include <tuple>

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/utils.h>

#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/kernels/sample_seeds.h"
#include "lockstep/nn/internal/testing.h"

namespace lockstep::nn {
namespace {

// Everything that has a way of its own: strides, windows over odd sizes, a sum, a concatenation, single
// places, layers with a ReLU and without.
constexpr const char* kMixture = R"({"layers": [
  {"type": "conv2d", "name": "first", "filters": 12, "kernel": 5, "padding": 2},
  {"type": "batch_norm", "name": "norm"},
  {"type": "relu", "name": "relu"},
  {"type": "max_pool", "name": "pool", "kernel": 3, "stride": 2},
  {"type": "conv2d", "name": "left", "filters": 12, "kernel": 3, "padding": 1, "bias": false},
  {"type": "conv2d", "name": "right", "inputs": ["pool"], "filters": 12, "kernel": 1},
  {"type": "add", "name": "sum", "inputs": ["left", "right"]},
  {"type": "batch_norm", "name": "norm2"},
  {"type": "concatenate", "name": "both", "inputs": ["norm2", "pool"]},
  {"type": "relu", "name": "relu2"},
  {"type": "conv2d", "name": "strided", "filters": 16, "kernel": 3, "stride": 2, "padding": 1},
  {"type": "global_average_pool", "name": "mean"},
  {"type": "flatten", "name": "flat"},
  {"type": "linear", "name": "last", "features": "classes"}
]})";

constexpr int64_t kClasses = 7;

class AutocastToBFloat16 {
 public:
  explicit AutocastToBFloat16(bool enabled) {
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~AutocastToBFloat16() { at::autocast::set_autocast_enabled(at::kCPU, false); }
};

// What a batch of some shards gives, or the shards one after the other.
struct Outcome {
  at::Tensor logits;
  std::vector<at::Tensor> statistics;  // of each batch norm and shard
  std::vector<at::Tensor> gradients;   // summed in the tree
  bool mixed = false;
};

std::vector<torch::nn::BatchNorm2dImpl*> batch_norms_of(const Instance& instance) {
  std::vector<torch::nn::BatchNorm2dImpl*> norms;
  for (const auto& module : instance.module->modules(false)) {
    if (auto* norm = dynamic_cast<torch::nn::BatchNorm2dImpl*>(module.get())) norms.push_back(norm);
  }
  return norms;
}

// A batch of equal shards; `first`: the place of its first sample in the mini-batch.
struct Part {
  at::Tensor images;
  at::Tensor gradient;
  int64_t shards;
  int64_t first;
};

Outcome pass(const Instance& instance, const Part& part, bool half) {
  const auto& [images, gradient, shards, first] = part;
  instance.module->zero_grad();
  const kernels::ShardsTogether together(shards);
  const kernels::SampleSeeds seeds(/*seed=*/5, first);
  Outcome outcome;
  at::Tensor logits;
  {
    const AutocastToBFloat16 autocast(half);
    logits = instance.forward(images);
  }
  logits.backward(gradient.to(logits.scalar_type()));
  outcome.logits = logits.detach();
  for (int64_t shard = 0; shard < shards; ++shard) {
    for (const torch::nn::BatchNorm2dImpl* norm : batch_norms_of(instance)) {
      for (const at::Tensor& buffer : {norm->running_mean, norm->running_var})
        outcome.statistics.push_back((shards == 1 ? buffer : together.statistics(buffer)[shard]).clone());
    }
  }
  for (const at::Tensor& parameter : instance.module->parameters())
    outcome.gradients.push_back(parameter.grad().clone());
  outcome.mixed = together.mixed();
  return outcome;
}

struct Gradients {
  std::vector<at::Tensor> all;
  Gradients& operator+=(const Gradients& other) {
    for (size_t i = 0; i < all.size(); ++i) all[i].add_(other.all[i]);
    return *this;
  }
};

Outcome one_after_the_other(const Instance& instance, const at::Tensor& images, const at::Tensor& gradient,
                            int64_t shards, bool half) {
  Outcome all;
  std::vector<at::Tensor> logits;
  const auto own_images = images.chunk(shards), own_gradients = gradient.chunk(shards);
  all.gradients =
      tree_sum(0, shards, [&](int64_t shard) {
        const auto place = static_cast<size_t>(shard);
        const Outcome own = pass(
            instance, {own_images[place], own_gradients[place], 1, shard * own_images[place].size(0)}, half);
        logits.push_back(own.logits);
        all.statistics.insert(all.statistics.end(), own.statistics.begin(), own.statistics.end());
        all.mixed = all.mixed || own.mixed;
        return Gradients{own.gradients};
      }).all;
  all.logits = at::cat(logits);
  return all;
}

void expect_equal(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& expected,
                  const char* what) {
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(at::equal(ours[i], expected[i])) << what << " " << i;
}

// True where the layers keep shards apart; the bits are then compared.
bool compare(const Network& network, const NetworkInput& input, int64_t shards, int64_t samples, bool half) {
  const Instance instance = network.make(input);
  for (torch::nn::BatchNorm2dImpl* norm : batch_norms_of(instance)) norm->options.momentum(1.0);
  const kernels::DirectKernels convolutions(true);
  const at::Tensor images = torch::randn({shards * samples, input.channels, input.height, input.width}),
                   gradient = torch::randn({shards * samples, kClasses});
  const Outcome expected = one_after_the_other(instance, images, gradient, shards, half);
  if (expected.mixed) {
    if (shards > 1) {
      EXPECT_NE(error_of([&] { pass(instance, {images, gradient, shards, 0}, half); }), "");
    }
    return false;
  }
  const Outcome ours = pass(instance, {images, gradient, shards, 0}, half);
  EXPECT_TRUE(at::equal(ours.logits, expected.logits));
  expect_equal(ours.statistics, expected.statistics, "statistic");
  expect_equal(ours.gradients, expected.gradients, "gradient");
  return true;
}

TEST(ShardsTogether, GiveTheBitsOfOneAfterTheOther) {
  torch::manual_seed(11);
  const Network mixture = read_network(Json::parse(kMixture), "net");
  const std::vector<std::tuple<std::string, Network, NetworkInput>> networks{
      {"mixture", mixture, {3, 21, 17, kClasses}},
      {"lenet", find_network("lenet"), {1, 28, 28, kClasses}},
      {"digits_cnn", find_network("digits_cnn"), {1, 28, 28, kClasses}},
      {"mlp", find_network("mlp"), {1, 28, 28, kClasses}},
      {"resnet18", find_network("resnet18"), {3, 32, 32, kClasses}},
      {"squeezenet", find_network("squeezenet"), {3, 40, 40, kClasses}},       // dropout
      {"mobilenet_v2", find_network("mobilenet_v2"), {3, 40, 40, kClasses}}};  // dropout, groups
  std::map<std::string, int> together;
  for (const auto& [name, network, input] : networks) {
    for (const auto& step : network.make(input).layers)
      EXPECT_TRUE(step.keeps_shards_apart) << name << " " << step.name;
    for (const bool half : {false, true}) {
      for (const auto& [shards, samples] :
           std::vector<std::pair<int64_t, int64_t>>{{1, 3}, {2, 2}, {3, 5}, {4, 8}}) {
        SCOPED_TRACE(name + (half ? " bf16 " : " ") + std::to_string(shards) + " shards of " +
                     std::to_string(samples));
        together[name] += compare(network, input, shards, samples, half) ? 1 : 0;
      }
    }
  }
  for (const char* name : {"lenet", "digits_cnn", "resnet18", "squeezenet", "mobilenet_v2"})
    EXPECT_GE(together[name], 6) << name;
}

}  // namespace
}  // namespace lockstep::nn
