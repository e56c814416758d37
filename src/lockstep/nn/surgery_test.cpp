#include "lockstep/nn/surgery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/nn/freeze.h"
#include "lockstep/nn/internal/testing.h"
#include "lockstep/nn/state.h"

namespace lockstep::nn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Surgery, PatternsCoverNamesAndGroups) {
  EXPECT_TRUE(covers("features.*", "features.3.squeeze.weight"));
  EXPECT_TRUE(covers("features", "features.3.squeeze.weight"));
  EXPECT_TRUE(covers("features.3", "features.3.squeeze.weight"));
  EXPECT_FALSE(covers("features.3", "features.30.weight"));
  EXPECT_TRUE(covers("*.bias", "classifier.1.bias"));
  EXPECT_FALSE(covers("*.bias", "classifier.1.weight"));
  EXPECT_TRUE(covers("*", "fc.weight"));
  EXPECT_TRUE(covers("layer*.conv2", "layer1.0.conv2.weight"));
  EXPECT_FALSE(covers("", "fc.weight"));
  EXPECT_TRUE(covers("*a*a*b", "aaaaaaaaaaaab"));
}

TEST(Surgery, ABuiltInNetworkIsChangedByALayersOptions) {
  const Json json = Json::parse(R"({"base": "squeezenet", "change": {"classifier.1": {"padding": 1}},)"
                                R"( "input": {"image-size": "227x227"}})");
  const Network network = read_network(json, "own");
  const NetworkTable table = inspect_network(network, {3, 227, 227, 1000});
  const auto layer = std::find_if(table.rows.begin(), table.rows.end(),
                                  [](const LayerRow& row) { return row.name == "classifier.1"; });
  EXPECT_THAT(layer->shape, ElementsAre(1000, 15, 15));
  EXPECT_EQ(expected_input(network)["image-size"], "227x227");
  EXPECT_TRUE(expected_input(find_network("squeezenet")).empty());
  EXPECT_THAT(complaint(R"({"base": "squeezenet", "change": {"classifier.2x": {"padding": 1}}})"),
              HasSubstr("did you mean \"classifier.2\"?"));
  EXPECT_THAT(complaint(R"({"base": "squeezenet", "change": {"classifier.1": {"paddingg": 1}}})"),
              HasSubstr("did you mean \"padding\"?"));
  EXPECT_THAT(complaint(R"({"base": "nothing"})"), HasSubstr("\"base\" must be a built-in network"));
  EXPECT_THAT(complaint(R"({"base": "lenet", "changes": {}})"), HasSubstr("no entry \"changes\""));
}

TEST(Surgery, TheImagesThatANetworkExpectsAreItsInput) {
  const NetworkInput sized = sized_as_expected({{"image-size", "64x96"}, {"color", "rgb"}}, {.classes = 3});
  EXPECT_EQ(sized, (NetworkInput{.channels = 3, .height = 64, .width = 96, .classes = 3}));
  EXPECT_EQ(sized_as_expected(Json::object(), sized), sized);
  for (const Json& size : {Json("64"), Json("0x3"), Json("axb"), Json("028x28"), Json("100000x1"), Json(7)})
    EXPECT_THROW(sized_as_expected({{"image-size", size}}, {}), Error) << size;
}

TEST(Surgery, AHeadOfAFixedSizeBecomesOneForTheClasses) {
  const Network fixed = read_network(
      Json::parse(R"([{"type": "conv2d", "filters": 4, "kernel": 1}, {"type": "global_average_pool"},)"
                  R"( {"type": "flatten"}, {"type": "linear", "features": 1000}, {"type": "relu"}])"),
      "fixed");
  const Surgery surgery = with_new_head(fixed, {3, 8, 8, 7});
  EXPECT_THAT(surgery.fresh, ElementsAre("3"));
  EXPECT_THAT(surgery.network.make({3, 8, 8, 7}).forward(torch::rand({2, 3, 8, 8})).sizes().vec(),
              ElementsAre(2, 7));
  EXPECT_EQ(head_of(find_network("squeezenet")), "classifier.1");
  EXPECT_EQ(head_of(find_network("resnet18")), "fc");
}

TEST(Surgery, LayersAtTheEndAreDropped) {
  const NetworkInput input{3, 64, 64, 7};
  const Surgery surgery = with_new_head(find_network("squeezenet"), input, 5);
  EXPECT_THAT(surgery.dropped,
              ElementsAre("classifier.0", "classifier.1", "classifier.2", "classifier.3", "flatten"));
  EXPECT_THAT(surgery.fresh, ElementsAre("head.linear"));
  const Instance instance = surgery.network.make(input);
  EXPECT_EQ(instance.module->named_parameters()["head.linear.weight"].size(1), 512);
  const Instance whole = find_network("squeezenet").make({3, 64, 64, 1000});
  load_state(*instance.module, {state_of(*whole.module), {}}, "old",
             {.fresh = surgery.fresh, .dropped = surgery.dropped});
  EXPECT_TRUE(at::equal(instance.module->named_parameters()["features.3.squeeze.weight"],
                        whole.module->named_parameters()["features.3.squeeze.weight"]));
  EXPECT_THAT(error_of([&] {
                with_new_head(find_network("lenet"), {1, 28, 28, 10}, 8);
              }),
              HasSubstr("cannot drop 8 layers of \"lenet\": it has 8"));
  // A list's names are places: they stay what they were.
  const Surgery list = with_new_head(find_network("digits_cnn"), {1, 28, 28, 10}, 1);
  EXPECT_THAT(list.dropped, ElementsAre("10"));
  EXPECT_EQ(list.network.make({1, 28, 28, 10}).module->named_parameters().contains("0.weight"), true);
}

TEST(Surgery, WeightsOfAnotherNetworkFillTheLayersThatAreNotNew) {
  const Network drawn = read_network(Json::parse(R"({"layers": [
    {"name": "0", "type": "conv2d", "filters": 20, "kernel": 5}, {"name": "1", "type": "batch_norm"},
    {"name": "small", "type": "conv2d", "filters": 4, "kernel": 1}, {"name": "flatten", "type": "flatten"},
    {"name": "head", "type": "linear", "features": "classes"}]})"),
                                     "drawn");
  const NetworkInput input{1, 28, 28, 3};
  const Instance trained = find_network("digits_cnn").make({1, 28, 28, 10});
  const Surgery surgery = with_new_layers(drawn, input, {"small", "he*"}, state_of(*trained.module));
  EXPECT_THAT(surgery.fresh, ElementsAre("small", "head"));
  EXPECT_THAT(surgery.dropped, ElementsAre("3", "4", "6", "7", "10"));
  const Instance instance = surgery.network.make(input);
  load_state(*instance.module, {state_of(*trained.module), {}}, "old",
             {.fresh = surgery.fresh, .dropped = surgery.dropped});
  EXPECT_TRUE(at::equal(instance.module->named_parameters()["0.weight"],
                        trained.module->named_parameters()["0.weight"]));
  EXPECT_THAT(error_of([&] { with_new_layers(drawn, input, {"flatten"}, {}); }),
              HasSubstr("no layer with weights that \"flatten\" covers"));
}

TEST(Surgery, FrozenLayersTakeNoGradientAndStayInEvaluation) {
  Instance instance = find_network("resnet18").make({3, 32, 32, 5});
  freeze(instance, {"conv1", "bn1", "layer1", "layer2"});
  begin_training(instance);
  const auto modules = instance.module->named_modules();
  EXPECT_FALSE(modules["bn1"]->is_training());
  EXPECT_FALSE(modules["layer2.0.bn1"]->is_training());
  EXPECT_TRUE(modules["layer3.0.bn1"]->is_training());
  const kernels::DirectKernels scope(true);
  const at::Tensor before = instance.module->named_buffers()["layer1.0.bn1.running_mean"].clone();
  instance.forward(torch::rand({4, 3, 32, 32})).sum().backward();
  EXPECT_TRUE(at::equal(before, instance.module->named_buffers()["layer1.0.bn1.running_mean"]));
  EXPECT_FALSE(instance.module->named_parameters()["layer2.0.conv1.weight"].grad().defined());
  EXPECT_TRUE(instance.module->named_parameters()["layer3.0.conv1.weight"].grad().defined());
  EXPECT_THAT(error_of([&] { freeze(instance, {"layer9"}); }),
              HasSubstr("no layer that matches \"layer9\" and could be frozen"));
}

TEST(Surgery, TheFrozenPartEndsWhereOneTensorGoesOn) {
  for (const auto& [name, patterns, layer] :
       std::vector<std::tuple<const char*, std::vector<std::string>, const char*>>{
           {"squeezenet", {"features.*"}, "features.12.concatenate"},
           {"squeezenet",
            {"features.0", "features.3.squeeze", "features.3.expand1x1"},
            "features.3.squeeze_activation"},
           {"resnet18", {"conv1", "bn1", "layer1", "layer2.0"}, "layer2.0.relu2"},
           {"resnet18", {"conv1"}, "conv1"},
           {"vgg16", {"features.*", "classifier.0"}, "classifier.1"},
           {"mobilenet_v2", {"features.*"}, "flatten"},
       }) {
    Instance instance = find_network(name).make({3, 64, 64, 5});
    freeze(instance, patterns);
    const size_t end = frozen_layers(instance);
    ASSERT_GT(end, 0U) << name;
    EXPECT_EQ(instance.layers[end - 1].name, layer) << name;
    begin_training(instance);
    const torch::NoGradGuard no_grad;
    const at::Tensor images = torch::rand({2, 3, 64, 64});
    instance.module->eval();
    const at::Tensor whole = instance.forward(images);
    EXPECT_TRUE(at::equal(
        instance.forward_part(instance.forward_part(images, 0, end), end, instance.layers.size()), whole))
        << name;
  }
  const Instance trained = find_network("resnet18").make({3, 64, 64, 5});
  EXPECT_EQ(frozen_layers(trained), 0U);
}

}  // namespace
}  // namespace lockstep::nn
