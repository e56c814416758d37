#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/state.h"
#include "lockstep/onnx/code.h"
#include "lockstep/onnx/export_onnx.h"
#include "lockstep/onnx/import_onnx.h"
#include "lockstep/onnx/internal/layer_names.h"

namespace lockstep::onnx {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TrainedNetwork small_network(const std::string& layers, const nn::NetworkInput& input = {}) {
  const nn::Network network = nn::read_network(Json::parse(layers), "net");
  return {.network = network, .input = input, .state = nn::state_of(*network.make(input).module)};
}

constexpr const char* kClassifier =
    R"([{"type":"conv2d","filters":4,"kernel":3,"initializer":"he"},{"type":"batch_norm"},{"type":"relu"},
        {"type":"flatten"},{"name":"head","type":"linear","features":"classes"}])";

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool are_equal(const nn::NamedTensors& a, const nn::NamedTensors& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].first != b[i].first || !a[i].second.equal(b[i].second)) return false;
  }
  return true;
}

TEST(Exchange, AFileGivesTheGraphAndTheWeightsBack) {
  TrainedNetwork trained = small_network(kClassifier);
  trained.classes = {"\"a\"", "b", "c", "d", "e", "f", "g", "h", "i", "j\xff"};
  trained.mean = {0.1307};
  trained.deviation = {0.3081};
  const Imported again = import_onnx(to_onnx(trained));
  EXPECT_EQ(again.trained.network.spec(), trained.network.spec());
  EXPECT_TRUE(are_equal(again.trained.state, trained.state));
  EXPECT_EQ(again.trained.mean, trained.mean);
  EXPECT_EQ(again.trained.classes.front(), "\"a\"");
  EXPECT_EQ(again.trained.input, trained.input);
}

TEST(Exchange, WhatIsNoOnnxFileIsOneError) {
  const auto refused = [](const std::string& bytes) {
    return error_of([&] { import_onnx(bytes, {.name = "photo.onnx"}); });
  };
  const std::string whole = to_onnx(small_network(kClassifier));
  for (const std::string& bytes :
       {std::string(), std::string("not a model at all"), std::string("{\"a\": 1}"),
        std::string("\xff\xd8\xff\xe0 a photograph"), whole.substr(0, whole.size() / 2)}) {
    EXPECT_THAT(refused(bytes),
                testing::MatchesRegex("\"photo.onnx\" is not a complete ONNX file: [^\n]+\n  hint: [^\n]+"));
  }
}

TEST(Exchange, MetadataThatDoNotFitTheOperatorsAreNotUsed) {
  std::string bytes = to_onnx(small_network(kClassifier));
  const std::string relu = R"("type":"relu")", tanh = R"("type":"tanh")";
  bytes.replace(bytes.find(relu), relu.size(), tanh);
  const Imported imported = import_onnx(bytes);
  EXPECT_EQ(imported.trained.network.spec()["layers"][2]["type"], "relu");
  EXPECT_EQ(imported.trained.network.spec()["layers"][2]["name"], "2");
  EXPECT_EQ(imported.trained.network.spec()["layers"][4]["features"], "classes");
}

TEST(Exchange, ConstantsOfLayersHaveALimit) {
  const std::string layers =
      R"({"name":"aaaaaaaa","layers":[{"type":"adaptive_average_pool","size":[9999,1]},{"type":"flatten"},
                                      {"type":"linear","features":"classes"}]})";
  EXPECT_THAT(error_of([&] { to_onnx(small_network(layers, {.height = 16'777'216})); }),
              HasSubstr("layer \"0\" would need a constant of 16,777,216 x 9,999 numbers"));
  // Metadata of the same length that ask for it.
  std::string bytes = to_onnx(small_network(layers));
  for (const auto& [from, to] : {std::pair(R"("height":28,)", R"("height":16777216,)"),
                                 std::pair(R"("name":"aaaaaaaa")", R"("name":"aa")")}) {
    const size_t at = bytes.rfind(from);
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, std::string(from).size(), to);
  }
  EXPECT_THAT(error_of([&] { import_onnx(bytes); }), HasSubstr("no layer in Lockstep"));
}

TEST(Exchange, FoldedBatchNormsAreNoLayers) {
  const Imported folded =
      import_onnx(to_onnx(small_network(kClassifier), {.fold_batch_norm = true, .scores = true}));
  std::vector<std::string> types;
  for (const Json& layer : folded.trained.network.spec()["layers"]) types.push_back(layer["type"]);
  EXPECT_THAT(types, ElementsAre("conv2d", "relu", "flatten", "linear"));
  EXPECT_THAT(folded.notes, testing::Contains(HasSubstr("the last Softmax is left out")));
}

// Without metadata, from the operators.
TEST(Exchange, NormalisationsKeepTheirUnits) {
  const auto imported = [](TrainedNetwork trained, double mean, double deviation) {
    trained.mean.assign(static_cast<size_t>(trained.input.channels), mean);
    trained.deviation.assign(static_cast<size_t>(trained.input.channels), deviation);
    return import_onnx(to_onnx(trained, {.fold_batch_norm = true})).trained;
  };
  const TrainedNetwork sequences = imported(
      small_network(R"([{"type":"lstm","hidden":4,"output":"last"},{"type":"linear","features":"classes"}])",
                    {.channels = 2, .height = 1, .width = 1, .classes = 3, .time_steps = 5}),
      -20, 10);
  EXPECT_THAT(sequences.mean, ElementsAre(-20, -20));
  EXPECT_THAT(sequences.deviation, ElementsAre(10, 10));
  for (const auto& [mean, deviation] :
       {std::pair(0.1307, 0.3081), std::pair(0.0, 1.0), std::pair(0.0, 1 / 255.0)}) {
    const TrainedNetwork images = imported(small_network(kClassifier), mean, deviation);
    EXPECT_NEAR(images.mean.at(0), mean, 1e-6);
    EXPECT_NEAR(images.deviation.at(0), deviation, 1e-6);
  }
}

TEST(Exchange, WeightsOfAnotherNetworkAreNotWritten) {
  TrainedNetwork trained = small_network(kClassifier);
  trained.state = small_network(R"([{"type":"flatten"},{"type":"linear","features":"classes"}])").state;
  EXPECT_THAT(error_of([&] { to_onnx(trained); }), HasSubstr("the weights have no tensor \"0.weight\""));
}

TEST(Exchange, LayersAreNamedByTheirWeightsOrScopes) {
  const auto named = [](const char* type, const char* tensor, const char* node) {
    LayerDraft layer{.type = type};
    layer.tensor_name = tensor;
    layer.node_name = node;
    return layer;
  };
  EXPECT_THAT(
      names_of(
          {named("conv2d", "layer1.0.conv1.weight", "node_Conv_1"),
           named("relu", "", "/layer1/layer1.0/relu/Relu"), named("add", "", "/layer1/layer1.0/Add"),
           named("conv2d", "onnx::Conv_193", "/features/features.1/conv/conv.0/Conv"),
           named("relu", "", "node_relu"), named("relu", "", "n2"), named("linear", "..weight", "a \"b\"")},
          false),
      ElementsAre("layer1.0.conv1", "layer1.0.relu", "layer1.0.add", "features.1.conv.0", "relu", "relu_1",
                  "linear"));
}

TEST(Exchange, CodeQuotesNamesAndHasTheLayersOptions) {
  const nn::Network network = nn::read_network(
      Json::parse(R"({"layers":[{"name":"a\\b.0","type":"conv2d","filters":2,"kernel":[3,5],"bias":false},
                      {"type":"flatten","name":"é"},{"name":"class","type":"linear","features":"classes"}]})"),
      "net");
  EXPECT_THAT(pytorch_code(network, {}),
              AllOf(HasSubstr(R"(self._add("a\\b.0", nn.Conv2d(1, 2, (3, 5), bias=False)))"),
                    HasSubstr("class_ = self._run(\"class\", "), HasSubstr("return class_\n")));
  EXPECT_THAT(
      cpp_code(network, {}),
      AllOf(HasSubstr(
                R"(add("a\\b.0", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 2, {3, 5}).bias(false))))"),
            HasSubstr("torch::nn::Linear class_layer{nullptr};")));
  const nn::Network taken = nn::read_network(
      Json::parse(R"([{"type":"flatten"},{"name":"type","type":"linear","features":"classes"}])"), "net");
  EXPECT_THAT(error_of([&] { pytorch_code(taken, {}); }),
              HasSubstr("\"type\" is an attribute of torch.nn.Module"));
}

}  // namespace
}  // namespace lockstep::onnx
