// The built-in networks: their counts, names and numbers are those of the models they are named after.
#include "lockstep/nn/zoo/zoo.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional.h>
#include <torch/nn/modules.h>
#include <torch/utils.h>

#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/nn/internal/testing.h"
#include "lockstep/nn/state.h"

namespace lockstep::nn {
namespace {

using testing::HasSubstr;

std::vector<std::string> names_of(const std::string& network, const NetworkInput& input) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state_of(*find_network(network).make(input).module))
    names.push_back(name);
  return names;
}

int64_t learnables_of(const std::string& network, const NetworkInput& input) {
  return inspect_network(find_network(network), input).learnable_count();
}

TEST(Zoo, CountsAreThoseOfTheOriginals) {
  EXPECT_EQ(learnables_of("resnet18", {3, 224, 224, 1000}), 11'689'512);
  EXPECT_EQ(learnables_of("squeezenet", {3, 224, 224, 1000}), 1'248'424);
  EXPECT_EQ(learnables_of("alexnet", {3, 224, 224, 1000}), 61'100'840);
  EXPECT_EQ(learnables_of("alexnet_2012", {3, 227, 227, 1000}), 60'965'224);
  EXPECT_EQ(learnables_of("mobilenet_v2", {3, 224, 224, 1000}), 3'504'872);
  EXPECT_EQ(learnables_of("resnet50", {3, 224, 224, 1000}), 25'557'032);
  EXPECT_EQ(learnables_of("squeezenet1_1", {3, 224, 224, 1000}), 1'235'496);
  EXPECT_EQ(learnables_of("vgg16", {3, 224, 224, 1000}), 138'357'544);
  EXPECT_EQ(learnables_of("lenet", {1, 28, 28, 10}), 431'080);
  EXPECT_EQ(learnables_of("resnet18", {}), 11'175'370);
  EXPECT_EQ(learnables_of("squeezenet", {}), 731'146);
  EXPECT_EQ(learnables_of("mlp", {}), 784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10);
  const NetworkTable digits = inspect_network(find_network("digits_cnn"), {});
  EXPECT_EQ(digits.learnable_count(), 20 * 26 + 2 * 20 * 181 + 3 * 40 + 11'521 * 10);
  EXPECT_EQ(digits.learnable_tensor_count(), 14);
  EXPECT_EQ(digits.state_tensor_count(), 6);
  EXPECT_EQ(digits.state_count(), 120);
}

TEST(Zoo, TablesSayWhatIsBuilt) {
  for (const std::string& name : builtin_network_names()) {
    const bool sequences = name.ends_with("_classifier");
    const int64_t side = name == "alexnet_2012" ? 99 : 64;
    const NetworkInput input = sequences ? NetworkInput{3, 1, 1, 7, 20} : NetworkInput{3, side, side, 7};
    const Instance instance = find_network(name).make(input);
    const NetworkTable table = inspect_network(find_network(name), input);
    std::map<std::string, std::vector<int64_t>> planned, built;
    for (const LayerRow& row : table.rows) {
      for (const LayerTensor& tensor : row.learnables) planned[row.name + "." + tensor.name] = tensor.shape;
      for (const LayerTensor& tensor : row.states) planned[row.name + "." + tensor.name] = tensor.shape;
    }
    for (const auto& [tensor_name, tensor] : state_of(*instance.module)) {
      if (!tensor_name.ends_with("num_batches_tracked")) built[tensor_name] = tensor.sizes().vec();
    }
    EXPECT_EQ(planned, built) << name;
    EXPECT_EQ(instance.forward(sequences ? torch::rand({2, 3, 20}) : torch::rand({2, 3, side, side})).sizes(),
              (std::vector<int64_t>{2, 7}))
        << name;
  }
}

std::vector<at::Tensor> logits_and_gradients(const Instance& instance, const at::Tensor& images) {
  instance.module->zero_grad();
  const at::Tensor logits = instance.forward(images);
  at::cross_entropy_loss(logits, torch::arange(images.size(0))).backward();
  std::vector<at::Tensor> results{logits.detach()};
  for (const at::Tensor& parameter : instance.module->parameters())
    results.push_back(parameter.grad().clone());
  return results;
}

TEST(Zoo, OwnKernelsAndTheEnginesGiveTheSameButForRounding) {
  for (const std::string& name : builtin_network_names()) {
    if (name.ends_with("_classifier"))
      continue;  // takes sequences, for which there are no kernels of our own
    // Gigabytes of gradients of linear layers; more of what resnet18 has.
    if (name.starts_with("alexnet") || name == "vgg16" || name == "resnet50") continue;
    torch::manual_seed(7);
    const Instance instance = find_network(name).make({3, 67, 67, 7});
    for (const auto& module : instance.module->modules()) {
      if (module->as<torch::nn::Dropout>() != nullptr)
        module->eval();  // each side would draw its own numbers
    }
    const at::Tensor images = torch::rand({5, 3, 67, 67});
    const std::vector<at::Tensor> engine = logits_and_gradients(instance, images);
    const kernels::DirectKernels scope(true);
    const std::vector<at::Tensor> own = logits_and_gradients(instance, images);
    for (size_t i = 0; i < own.size(); ++i) {
      // Rounding decides about some ReLUs, so single numbers may differ by more.
      EXPECT_LE((own[i] - engine[i]).norm().item<double>(), 5e-2 * engine[i].norm().item<double>() + 1e-5)
          << name << ", " << i;
    }
  }
}

TEST(Zoo, Resnet18HasTorchvisionsNames) {
  std::vector<std::string> expected;
  const auto norm = [&](const std::string& name) {
    for (const char* part : {".weight", ".bias", ".running_mean", ".running_var", ".num_batches_tracked"})
      expected.push_back(name + part);
  };
  expected.push_back("conv1.weight");
  norm("bn1");
  for (const std::string block :
       {"layer1.0", "layer1.1", "layer2.0", "layer2.1", "layer3.0", "layer3.1", "layer4.0", "layer4.1"}) {
    expected.push_back(block + ".conv1.weight");
    norm(block + ".bn1");
    expected.push_back(block + ".conv2.weight");
    norm(block + ".bn2");
    if (block.ends_with(".0") && block != "layer1.0") {
      expected.push_back(block + ".downsample.0.weight");
      norm(block + ".downsample.1");
    }
  }
  expected.insert(expected.end(), {"fc.weight", "fc.bias"});
  EXPECT_EQ(names_of("resnet18", {3, 64, 64, 10}), expected);
}

TEST(Zoo, SqueezenetHasTorchvisionsNames) {
  std::vector<std::string> expected{"features.0.weight", "features.0.bias"};
  for (const char* index : {"3", "4", "5", "7", "8", "9", "10", "12"}) {
    for (const char* part : {"squeeze", "expand1x1", "expand3x3"}) {
      for (const char* tensor : {"weight", "bias"})
        expected.push_back("features." + std::string(index) + "." + part + "." + tensor);
    }
  }
  expected.insert(expected.end(), {"classifier.1.weight", "classifier.1.bias"});
  EXPECT_EQ(names_of("squeezenet", {3, 64, 64, 10}), expected);
}

// resnet18 written out with functions, on the network's own weights.
class HandWrittenResnet {
 public:
  explicit HandWrittenResnet(const torch::nn::Module& module) {
    for (const auto& [name, tensor] : state_of(module)) tensors_[name] = tensor;
  }

  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = torch::max_pool2d(torch::relu(norm(convolve(images, "conv1", 2, 3), "bn1")), 3, 2, 1);
    for (int stage = 1; stage <= 4; ++stage) {
      const std::string name = "layer" + std::to_string(stage);
      x = block(x, name + ".0", stage == 1 ? 1 : 2);
      x = block(x, name + ".1", 1);
    }
    return torch::linear(x.mean({2, 3}), tensors_.at("fc.weight"), tensors_.at("fc.bias"));
  }

 private:
  at::Tensor convolve(const at::Tensor& x, const std::string& name, int64_t stride, int64_t padding) {
    return torch::conv2d(x, tensors_.at(name + ".weight"), {}, stride, padding);
  }
  at::Tensor norm(const at::Tensor& x, const std::string& name) {
    return torch::batch_norm(x, tensors_.at(name + ".weight"), tensors_.at(name + ".bias"),
                             tensors_.at(name + ".running_mean"), tensors_.at(name + ".running_var"), false,
                             0.1, 1e-5, false);
  }
  at::Tensor block(const at::Tensor& x, const std::string& name, int64_t stride) {
    at::Tensor y = torch::relu(norm(convolve(x, name + ".conv1", stride, 1), name + ".bn1"));
    y = norm(convolve(y, name + ".conv2", 1, 1), name + ".bn2");
    const bool same = !tensors_.contains(name + ".downsample.0.weight");
    return torch::relu(
        y + (same ? x : norm(convolve(x, name + ".downsample.0", stride, 0), name + ".downsample.1")));
  }

  std::map<std::string, at::Tensor> tensors_;
};

TEST(Zoo, Resnet18IsTheHandWrittenOne) {
  torch::manual_seed(2);
  const Instance instance = find_network("resnet18").make({3, 40, 48, 5});
  for (const auto& [name, tensor] : state_of(*instance.module)) {
    if (name.ends_with("running_mean")) tensor.normal_(0, 0.1);
    if (name.ends_with("running_var")) tensor.uniform_(0.5, 1.5);
  }
  instance.module->eval();
  const torch::NoGradGuard no_grad;
  const at::Tensor images = torch::rand({2, 3, 40, 48});
  EXPECT_TRUE(torch::allclose(instance.forward(images), HandWrittenResnet(*instance.module).forward(images),
                              1e-4, 1e-5));
}

TEST(Zoo, LenetIsTheSequentialWithTheSameWeights) {
  torch::nn::Sequential sequential(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 20, 5)), torch::nn::MaxPool2d(2),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(20, 50, 5)), torch::nn::MaxPool2d(2), torch::nn::Flatten(),
      torch::nn::Linear(800, 500), torch::nn::ReLU(), torch::nn::Linear(500, 10));
  const Instance instance = find_network("lenet").make({});
  SafetensorsFile file{state_of(*instance.module), {}};
  load_state(*sequential, file, "lenet");
  const at::Tensor images = torch::rand({4, 1, 28, 28});
  EXPECT_TRUE(torch::allclose(instance.forward(images), sequential->forward(images), 1e-4, 1e-5));
}

TEST(Zoo, TooSmallImagesNameTheSmallestThatFits) {
  const auto complaint_of = [](const char* name, const NetworkInput& input) {
    return error_of([&] { find_network(name).make(input); });
  };
  EXPECT_THAT(complaint_of("digits_cnn", {1, 4, 4, 10}),
              HasSubstr("smallest square image that fits this network is 5x5; the images are 4x4"));
  EXPECT_THAT(complaint_of("lenet", {1, 8, 8, 10}),
              HasSubstr("smallest square image that fits this network is 16x16"));
  EXPECT_THAT(complaint_of("squeezenet", {3, 8, 8, 10}),
              HasSubstr("smallest square image that fits this network is 21x21"));
  EXPECT_EQ(complaint_of("resnet18", {3, 1, 1, 10}), "");
  EXPECT_EQ(complaint_of("squeezenet", {1, 28, 28, 10}), "");
}

TEST(Zoo, TheTableTextHasTheTotals) {
  const std::string text = network_table_text(inspect_network(find_network("digits_cnn"), {}));
  EXPECT_THAT(text, HasSubstr("11 layers, 14 learnable tensors with 123,090 numbers (480.8 KB in float32), 6 "
                              "state tensors with 120 numbers\n"));
  EXPECT_THAT(text, HasSubstr("10     linear      9      10        115,210 (weight 10x11520, bias 10)"));
}

TEST(Zoo, TheTableTextAlignsNamesOfAnyAlphabet) {
  const Network network = read_network(
      Json::parse(R"([{"type":"flatten","name":"größe"},{"type":"linear","features":"classes"}])"), "net");
  const std::string text = network_table_text(inspect_network(network, {}));
  EXPECT_THAT(text, HasSubstr("größe  flatten  input  784"));
  EXPECT_THAT(text, HasSubstr("1      linear   größe  10 "));
}

}  // namespace
}  // namespace lockstep::nn
