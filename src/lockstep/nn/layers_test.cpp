// Every type of layer against LibTorch's own function: shapes before, numbers after.
#include "lockstep/nn/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional.h>
#include <torch/nn/modules.h>
#include <torch/utils.h>

#include "lockstep/base/seed.h"
#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/nn/internal/testing.h"
#include "lockstep/nn/state.h"

namespace lockstep::nn {
namespace {

using testing::HasSubstr;
namespace functional = torch::nn::functional;

// Classes as many as the layer gives numbers, so that one layer makes a whole network.
Instance make_one(const std::string& layer, NetworkInput input, bool flatten = true) {
  const std::string list = "[" + layer + (flatten ? R"(,{"type":"flatten"}])" : "]");
  const auto refused = complaint(list, input);
  if (const size_t at = refused.find("returns ["); at != std::string::npos)
    input.classes = std::stoll(refused.substr(at + std::string_view("returns [").size()));
  return read_network(Json::parse(list), "one").make(input);
}

// Stored as networks convolve them, so that the functions compared with take the same path.
at::Tensor random_images(const NetworkInput& input) {
  torch::manual_seed(7);
  return torch::randn({3, input.channels, input.height, input.width})
      .contiguous(at::MemoryFormat::ChannelsLast);
}

// A layer without tensors of its own against a function.
void expect_same(const std::string& layer, const std::function<at::Tensor(const at::Tensor&)>& function) {
  const NetworkInput input{4, 9, 8, 10};
  const at::Tensor images = random_images(input);
  EXPECT_TRUE(torch::equal(make_one(layer, input).forward(images), function(images).flatten(1))) << layer;
}

TEST(Layers, FunctionsAreLibTorchs) {
  expect_same(R"({"type":"relu"})", [](const auto& x) { return torch::relu(x); });
  expect_same(R"({"type":"leaky_relu","slope":0.2})",
              [](const auto& x) { return torch::leaky_relu(x, 0.2); });
  expect_same(R"({"type":"tanh"})", [](const auto& x) { return torch::tanh(x); });
  expect_same(R"({"type":"sigmoid"})", [](const auto& x) { return torch::sigmoid(x); });
  expect_same(R"({"type":"gelu"})", [](const auto& x) { return torch::gelu(x); });
  expect_same(R"({"type":"softmax"})", [](const auto& x) { return torch::softmax(x, 1); });
  expect_same(R"({"type":"max_pool","kernel":2})", [](const auto& x) { return torch::max_pool2d(x, 2); });
  expect_same(R"({"type":"average_pool","kernel":[3,2],"padding":1})", [](const auto& x) {
    return torch::avg_pool2d(x, {3, 2}, {3, 2}, {1, 1});
  });
  expect_same(R"({"type":"adaptive_average_pool","size":[2,3]})", [](const auto& x) {
    return torch::adaptive_avg_pool2d(x, {2, 3});
  });
  expect_same(R"({"type":"global_average_pool"})", [](const auto& x) {
    return torch::adaptive_avg_pool2d(x, {1, 1});
  });
  expect_same(R"({"type":"local_response_norm","size":3,"alpha":0.1,"k":2})", [](const auto& x) {
    return functional::local_response_norm(x, functional::LocalResponseNormFuncOptions(3).alpha(0.1).k(2));
  });
  expect_same(R"({"type":"add","inputs":["input","input","input"]})",
              [](const auto& x) { return x + x + x; });
  expect_same(R"({"type":"concatenate","inputs":["input","input"]})", [](const auto& x) {
    return torch::cat({x, x}, 1);
  });
}

TEST(Layers, DropoutFollowsTrainAndEval) {
  const NetworkInput input{4, 9, 8, 10};
  const Instance instance = make_one(R"({"type":"dropout","probability":0.25})", input);
  const at::Tensor images = random_images(input);
  torch::manual_seed(3);
  const at::Tensor dropped = instance.forward(images);
  torch::manual_seed(3);
  EXPECT_TRUE(torch::equal(dropped, torch::dropout(images, 0.25, true).flatten(1)));
  instance.module->eval();
  EXPECT_TRUE(torch::equal(instance.forward(images), images.flatten(1)));
}

TEST(Layers, ConvolutionIsLibTorchs) {
  const NetworkInput input{4, 9, 8, 10};
  const Instance instance =
      make_one(R"({"type":"conv2d","filters":6,"kernel":[3,2],"stride":[2,1],"padding":[1,0],"dilation":2,)"
               R"("groups":2})",
               input);
  const NamedTensors state = state_of(*instance.module);
  ASSERT_EQ(state.size(), 2u);
  const at::Tensor images = random_images(input);
  const at::Tensor expected =
      torch::conv2d(images, state[0].second, state[1].second, {2, 1}, {1, 0}, {2, 2}, 2);
  EXPECT_TRUE(torch::equal(instance.forward(images), expected.flatten(1)));
}

TEST(Layers, BatchNormIsPyTorchsForImagesAndFeatures) {
  const NetworkInput input{4, 9, 8, 10};
  for (const bool images : {true, false}) {
    const Instance instance = make_one(std::string(images ? "" : R"({"type":"flatten"},)") +
                                           R"({"type":"batch_norm","momentum":0.3,"epsilon":0.01})",
                                       input, images);
    EXPECT_EQ(dynamic_cast<torch::nn::BatchNorm2dImpl*>(instance.module->children().front().get()) != nullptr,
              images);
    std::vector<std::string> names;
    for (const auto& [name, tensor] : state_of(*instance.module))
      names.push_back(name.substr(name.find('.') + 1));
    EXPECT_THAT(names,
                testing::ElementsAre("weight", "bias", "running_mean", "running_var", "num_batches_tracked"));
    const at::Tensor batch = images ? random_images(input) : random_images(input).flatten(1);
    const at::Tensor expected =
        functional::batch_norm(batch, {}, {}, functional::BatchNormFuncOptions().training(true).eps(0.01));
    EXPECT_TRUE(torch::allclose(instance.forward(random_images(input)), expected.flatten(1), 1e-5, 1e-6));
  }
}

TEST(Layers, ShapesAreThoseLibTorchGives) {
  Random random(5);
  const auto number = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
  };
  int fitting = 0;
  for (int round = 0; round < 400; ++round) {
    const NetworkInput input{2, number(1, 12), number(1, 12), 10};
    const int64_t kernel = number(1, 5), stride = number(1, 4), dilation = number(1, 2),
                  padding = number(0, kernel / 2);
    const bool ceil_mode = number(0, 1) == 1;
    Json layer{{"type", "conv2d"}, {"filters", 3},       {"kernel", kernel},
               {"stride", stride}, {"padding", padding}, {"dilation", dilation}};
    if (round % 2 == 1)
      layer = {{"type", "max_pool"}, {"kernel", kernel},     {"stride", stride},
               {"padding", padding}, {"dilation", dilation}, {"ceil_mode", ceil_mode}};
    const std::string list =
        "[" + layer.dump() + R"(,{"type":"flatten"},{"type":"linear","features":"classes"}])";
    const at::Tensor images = torch::zeros({1, 2, input.height, input.width});
    std::vector<int64_t> expected;
    try {
      const at::Tensor output =
          round % 2 == 1
              ? torch::max_pool2d(images, kernel, stride, padding, dilation, ceil_mode)
              : torch::conv2d(images, torch::zeros({3, 2, kernel, kernel}), {}, stride, padding, dilation);
      expected = output.sizes().slice(1).vec();
    } catch (const c10::Error&) {
      EXPECT_THAT(complaint(list, input), HasSubstr("does not fit into")) << list;
      continue;
    }
    ++fitting;
    EXPECT_EQ(shapes_of(list, input).front(), expected) << list;
  }
  EXPECT_GT(fitting, 200);
}

TEST(Layers, OverwritingChangesNoNumberAndNoGradient) {
  // The first relu overwrites the sum; the second may not, for its input is used twice; tanh needs its output
  // kept.
  const std::string graph =
      R"([{"name":"a","type":"conv2d","filters":3,"kernel":3,"padding":1},)"
      R"({"name":"b","type":"conv2d","filters":3,"kernel":3,"padding":1,"inputs":["input"]},
    {"name":"sum","type":"add","inputs":["a","b"]},{"name":"r1","type":"relu"},)"
      R"({"name":"c","type":"conv2d","filters":3,"kernel":1},{"name":"r2","type":"relu"},
    {"name":"t","type":"tanh","inputs":["c"]},{"name":"r3","type":"relu"},)"
      R"({"name":"join","type":"add","inputs":["r2","r3","r1"]},{"name":"flat","type":"flatten"},
    {"name":"r4","type":"relu"},{"name":"r5","type":"relu","inputs":["input"]},)"
      R"({"name":"flat5","type":"flatten"},{"name":"all","type":"concatenate","inputs":["r4","flat5"]},)"
      R"({"name":"out","type":"linear","features":"classes"}])";
  const NetworkInput input{2, 5, 4, 3};
  const Instance instance = read_network(Json::parse(graph), "net").make(input);
  std::map<std::string, at::Tensor> weights;
  for (const auto& item : instance.module->named_parameters())
    weights[item.key()] = item.value().detach().clone().requires_grad_();
  const at::Tensor images = random_images(input);
  const auto convolve = [&](const at::Tensor& x, const std::string& name, int64_t padding) {
    return torch::conv2d(x, weights[name + ".weight"], weights[name + ".bias"], 1, padding);
  };
  const at::Tensor r1 = torch::relu(convolve(images, "a", 1) + convolve(images, "b", 1));
  const at::Tensor c = convolve(r1, "c", 0);
  const at::Tensor join = torch::relu(c) + torch::relu(torch::tanh(c)) + r1;
  const at::Tensor all = torch::cat({torch::relu(join.flatten(1)), torch::relu(images).flatten(1)}, 1);
  const at::Tensor expected = torch::linear(all, weights["out.weight"], weights["out.bias"]);
  const at::Tensor before = images.clone();
  const at::Tensor given = instance.forward(images);
  EXPECT_TRUE(torch::equal(given, expected));
  EXPECT_TRUE(torch::equal(images, before));
  given.sum().backward();
  expected.sum().backward();
  for (const auto& item : instance.module->named_parameters())
    EXPECT_TRUE(torch::allclose(item.value().grad(), weights[item.key()].grad(), 1e-5, 1e-6)) << item.key();
}

TEST(Layers, ConvolutionsThatWriteIntoAConcatenationChangeNoNumberAndNoGradient) {
  // a and b write into "all"; c is one for the engine, "pool" none at all, and d has a second reader.
  const std::string graph =
      R"([{"name":"a","type":"conv2d","filters":8,"kernel":1},{"name":"ra","type":"relu"},)"
      R"({"name":"b","type":"conv2d","filters":12,"kernel":3,"padding":1,"inputs":["input"]},
    {"name":"rb","type":"relu"},)"
      R"({"name":"c","type":"conv2d","filters":4,"kernel":3,"padding":2,"dilation":2,"inputs":["input"]},)"
      R"({"name":"rc","type":"relu"},
    {"name":"pool","type":"max_pool","kernel":3,"stride":1,"padding":1,"inputs":["input"]},)"
      R"({"name":"rp","type":"relu"},{"name":"d","type":"conv2d","filters":3,"kernel":1,"inputs":["input"]},
    {"name":"rd","type":"relu"},{"name":"all","type":"concatenate","inputs":["ra","rc","rb","rp","rd"]},)"
      R"({"name":"both","type":"concatenate","inputs":["all","d"]},{"name":"flat","type":"flatten"},
    {"name":"out","type":"linear","features":"classes"}])";
  const NetworkInput input{16, 9, 8, 3};
  const Instance instance = read_network(Json::parse(graph), "net").make(input);
  std::map<std::string, at::Tensor> weights;
  for (const auto& item : instance.module->named_parameters())
    weights[item.key()] = item.value().detach().clone().requires_grad_();
  const at::Tensor images = random_images(input);
  const auto convolve = [&](const std::string& name, int64_t padding, int64_t dilation = 1) {
    return torch::conv2d(images, weights[name + ".weight"], weights[name + ".bias"], 1, padding, dilation);
  };
  const at::Tensor d = convolve("d", 0);
  const at::Tensor all =
      torch::cat(
          {convolve("a", 0), convolve("c", 2, 2), convolve("b", 1), torch::max_pool2d(images, 3, 1, 1), d}, 1)
          .relu();
  const at::Tensor expected =
      torch::linear(torch::cat({all, d}, 1).flatten(1), weights["out.weight"], weights["out.bias"]);
  const kernels::DirectKernels scope(true);
  const at::Tensor given = instance.forward(images);
  EXPECT_TRUE(torch::allclose(given, expected, 1e-4, 1e-5));
  {
    const at::NoGradGuard no_gradient;
    EXPECT_TRUE(torch::equal(instance.forward(images), given));
  }
  given.square().sum().backward();
  expected.square().sum().backward();
  for (const auto& item : instance.module->named_parameters())
    EXPECT_TRUE(torch::allclose(item.value().grad(), weights[item.key()].grad(), 1e-3, 1e-3)) << item.key();
}

TEST(Layers, InitializersHaveTheirSpreadAndObeyTheSeed) {
  const auto weights_of = [](const std::string& initializer) {
    const std::string graph = R"({"initializer":")" + initializer +
                              R"(","layers":[{"type":"conv2d","filters":64,"kernel":5},{"type":"flatten"},)"
                              R"({"type":"linear","features":"classes"}]})";
    torch::manual_seed(11);
    return state_of(*read_network(Json::parse(graph), "net").make({16, 8, 8, 10}).module);
  };
  const double fan_in = 16 * 25, fan_out = 64 * 25;
  const std::pair<const char*, double> spreads[] = {{"default", 1 / std::sqrt(3 * fan_in)},
                                                    {"xavier", std::sqrt(2 / (fan_in + fan_out))},
                                                    {"he", std::sqrt(2 / fan_in)},
                                                    {"he-fan-out", std::sqrt(2 / fan_out)},
                                                    {"he-uniform", std::sqrt(2 / fan_in)},
                                                    {"normal", 0.01},
                                                    {"zeros", 0.0}};
  for (const auto& [name, spread] : spreads) {
    const NamedTensors state = weights_of(name);
    EXPECT_NEAR(state[0].second.std().item<double>(), spread, spread * 0.05) << name;
    EXPECT_EQ(state[1].second.abs().sum().item<double>() == 0.0, std::string(name) != "default") << name;
    EXPECT_TRUE(torch::equal(state[2].second, weights_of(name)[2].second)) << name;
  }
}

TEST(Layers, ALayersOwnInitializerWins) {
  const Json graph = Json::parse(
      R"({"initializer":"normal","layers":[{"type":"flatten"},)"
      R"({"type":"linear","features":8,"initializer":"zeros"},{"type":"linear","features":"classes"}]})");
  const NamedTensors state = state_of(*read_network(graph, "net").make({}).module);
  EXPECT_EQ(state[0].second.abs().sum().item<double>(), 0.0);
  EXPECT_GT(state[2].second.abs().sum().item<double>(), 0.0);
}

TEST(Layers, DefaultWeightsAreThoseOfASequentialWithTheSameSeed) {
  torch::manual_seed(1);
  torch::nn::Sequential sequential;  // filled one by one: arguments of a call are made in any order
  const auto push_block = [&](int64_t channels, int64_t kernel, int64_t padding) {
    sequential->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, 20, kernel).padding(padding)));
    sequential->push_back(torch::nn::BatchNorm2d(20));
    sequential->push_back(torch::nn::ReLU());
  };
  push_block(1, 5, 0);
  push_block(20, 3, 1);
  push_block(20, 3, 1);
  sequential->push_back(torch::nn::Flatten());
  sequential->push_back(torch::nn::Linear(11'520, 10));
  torch::manual_seed(1);
  const Instance instance = find_network("digits_cnn").make({});
  const NamedTensors expected = state_of(*sequential), given = state_of(*instance.module);
  ASSERT_EQ(given.size(), expected.size());
  for (size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(given[i].first, expected[i].first);
    EXPECT_TRUE(torch::equal(given[i].second, expected[i].second)) << given[i].first;
  }
  const at::Tensor images = torch::rand({4, 1, 28, 28});
  EXPECT_TRUE(torch::allclose(instance.forward(images), sequential->forward(images), 1e-4, 1e-5));
}

}  // namespace
}  // namespace lockstep::nn
