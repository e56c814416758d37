#include "lockstep/nn/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>
#include <torch/nn/module.h>

#include "lockstep/nn/internal/testing.h"

namespace lockstep::nn {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Instance small_network(int64_t classes = 3) {
  return read_network(Json::parse(R"([{"name":"first","type":"conv2d","filters":2,"kernel":3},)"
                                  R"({"name":"norm","type":"batch_norm"},{"name":"flat","type":"flatten"},)"
                                  R"({"name":"last","type":"linear","features":"classes"}])"),
                      "net")
      .make({1, 5, 5, classes});
}

SafetensorsFile copy_of(const Instance& instance) {
  SafetensorsFile file;
  for (const auto& [name, tensor] : state_of(*instance.module))
    file.tensors.emplace_back(name, tensor.clone());
  return file;
}

at::Tensor& tensor_named(SafetensorsFile& file, const std::string& name) {
  for (auto& [other, tensor] : file.tensors) {
    if (other == name) return tensor;
  }
  throw std::out_of_range(name);
}

TEST(State, ParametersComeBeforeBuffersAndChildrenInOrder) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state_of(*small_network().module)) names.push_back(name);
  EXPECT_THAT(names, testing::ElementsAre("first.weight", "first.bias", "norm.weight", "norm.bias",
                                          "norm.running_mean", "norm.running_var", "norm.num_batches_tracked",
                                          "last.weight", "last.bias"));
}

TEST(State, LoadsByNameAndConvertsNumbers) {
  SafetensorsFile file = copy_of(small_network());
  std::reverse(file.tensors.begin(), file.tensors.end());
  const Instance other = small_network();
  convert_floating(*other.module, torch::kDouble);
  load_state(*other.module, file, "a.safetensors");
  for (const auto& [name, tensor] : state_of(*other.module))
    EXPECT_TRUE(torch::equal(
        tensor,
        tensor_named(file, name).to(name == "norm.num_batches_tracked" ? torch::kLong : torch::kDouble)))
        << name;
}

TEST(State, WhatDoesNotFitIsNamedAndNothingChanges) {
  const Instance instance = small_network();
  const SafetensorsFile before = copy_of(instance);
  const auto complaint_of = [&](SafetensorsFile file) {
    return error_of([&] { load_state(*instance.module, file, "a.safetensors"); });
  };
  EXPECT_THAT(complaint_of(copy_of(small_network(7))),
              AllOf(HasSubstr("the weights in \"a.safetensors\" do not fit this network"),
                    HasSubstr("\"last.weight\" is [7,18] instead of [3,18] and 1 more such differences"),
                    HasSubstr("sizes or classes")));
  SafetensorsFile renamed = before;
  renamed.tensors[0].first = "frist.weight";
  EXPECT_THAT(complaint_of(renamed),
              AllOf(HasSubstr("missing \"first.weight\"; unexpected \"frist.weight\""),
                    HasSubstr("the file has \"frist.weight\" where the network has \"first.weight\"")));
  EXPECT_THAT(complaint_of({}), HasSubstr("missing \"first.weight\", \"first.bias\", \"norm.weight\", "
                                          "\"norm.bias\", \"norm.running_mean\" and 3 more"));
  SafetensorsFile floating = before;
  tensor_named(floating, "norm.num_batches_tracked") = torch::zeros({});
  EXPECT_THAT(complaint_of(floating),
              HasSubstr("\"norm.num_batches_tracked\" contains floating-point numbers instead of integers"));
  const SafetensorsFile after = copy_of(instance);
  for (size_t i = 0; i < before.tensors.size(); ++i)
    EXPECT_TRUE(torch::equal(before.tensors[i].second, after.tensors[i].second));
}

TEST(State, AMissingBatchCountIsZero) {
  const Instance instance = small_network();
  SafetensorsFile file = copy_of(instance);
  std::erase_if(file.tensors, [](const auto& item) { return item.first == "norm.num_batches_tracked"; });
  for (const auto& [name, tensor] : state_of(*instance.module)) {
    if (name == "norm.num_batches_tracked") tensor.fill_(5);
  }
  load_state(*instance.module, file, "a.safetensors");
  SafetensorsFile loaded = copy_of(instance);
  EXPECT_EQ(tensor_named(loaded, "norm.num_batches_tracked").item<int64_t>(), 0);
}

TEST(State, FreshLayersKeepWhatTheyHave) {
  const Instance instance = small_network();
  SafetensorsFile own = copy_of(instance);
  SafetensorsFile file = copy_of(small_network(7));  // another number of classes
  load_state(*instance.module, file, "a.safetensors", {.fresh = {"last"}});
  SafetensorsFile loaded = copy_of(instance);
  EXPECT_TRUE(torch::equal(tensor_named(loaded, "last.weight"), tensor_named(own, "last.weight")));
  EXPECT_TRUE(torch::equal(tensor_named(loaded, "first.weight"), tensor_named(file, "first.weight")));
  EXPECT_THAT(error_of([&] { load_state(*instance.module, file, "a.safetensors", {.fresh = {"lasst"}}); }),
              AllOf(HasSubstr("the network has no layer \"lasst\" that could be initialized again"),
                    HasSubstr("did you mean \"last\"?")));
}

}  // namespace
}  // namespace lockstep::nn
