// Modules of one's own on the kernels of this project, against the same modules on the engine's.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "lockstep/base/error.h"
#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/nn/module.h"

namespace lockstep::nn {
namespace {

const NetworkInput kInput{.channels = 3, .height = 12, .width = 10, .classes = 5};

/// As in PyTorch's own first example: images are viewed as rows before the last layer.
struct ViewingNetImpl : torch::nn::Module {
  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear last{nullptr};
  bool was_channels_last = false;

  explicit ViewingNetImpl(const NetworkInput& input) {
    first = register_module("first",
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(input.channels, 20, 5).padding(2)));
    norm = register_module("norm", torch::nn::BatchNorm2d(20));
    second = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(20, 20, 3).padding(1)));
    last = register_module("last",
                           torch::nn::Linear(20 * (input.height / 2) * (input.width / 2), input.classes));
  }
  at::Tensor forward(const at::Tensor& images) {
    was_channels_last = images.stride(1) == 1;
    const at::Tensor features = at::max_pool2d(at::relu(second(at::relu(norm(first(images))))), 2);
    return last(features.view({features.size(0), -1}));
  }
};
TORCH_MODULE(ViewingNet);

struct Results {
  at::Tensor logits = {};
  std::vector<at::Tensor> gradients = {}, buffers = {};
};

Results train_once(const Instance& instance, const at::Tensor& images, bool own_kernels) {
  const kernels::DirectKernels scope(own_kernels);
  instance.module->train();
  instance.module->zero_grad();
  Results results{instance.forward(images)};
  results.logits.square().sum().backward();
  for (const at::Tensor& parameter : instance.module->parameters())
    results.gradients.push_back(parameter.grad().clone());
  for (const at::Tensor& buffer : instance.module->buffers()) results.buffers.push_back(buffer.clone());
  return results;
}

void expect_near(const at::Tensor& ours, const at::Tensor& engine) {
  const at::Tensor wanted = engine.to(at::kDouble);
  EXPECT_LE((ours.to(at::kDouble) - wanted).abs().max().item<double>(),
            2e-4 * std::max(1.0, wanted.abs().max().item<double>()));
}

template <class Net>
Instance instance_of(const NetworkInput& input) {
  torch::manual_seed(3);
  return network("own", [](const NetworkInput& wanted) { return Net(wanted); }).make(input);
}

TEST(OwnModules, TrainChannelsLastAsTheEngineTrainsThem) {
  for (const int64_t channels : {1, 3}) {
    SCOPED_TRACE(channels);
    NetworkInput input = kInput;
    input.channels = channels;
    const at::Tensor images = at::randn({6, channels, input.height, input.width});
    const Instance instance = instance_of<ViewingNet>(input);
    const Results engine = train_once(instance_of<ViewingNet>(input), images, false),
                  ours = train_once(instance, images, true);
    EXPECT_TRUE(instance.channels_last);
    EXPECT_TRUE(dynamic_cast<ViewingNetImpl&>(*instance.module).was_channels_last);
    expect_near(ours.logits, engine.logits);
    for (size_t i = 0; i < engine.gradients.size(); ++i) expect_near(ours.gradients[i], engine.gradients[i]);
    for (size_t i = 0; i < engine.buffers.size(); ++i) expect_near(ours.buffers[i], engine.buffers[i]);
  }
}

/// The output of a batch norm is read by a ReLU, in place or not, and by others.
struct SharingNetImpl : torch::nn::Module {
  torch::nn::Conv2d first{nullptr};
  torch::nn::BatchNorm2d norm{nullptr}, other{nullptr};
  torch::nn::Linear last{nullptr};

  explicit SharingNetImpl(const NetworkInput& input) {
    first = register_module("first",
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(input.channels, 20, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(20));
    other = register_module("other", torch::nn::BatchNorm2d(20));
    last = register_module("last", torch::nn::Linear(20, input.classes));
  }
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor normalized = norm(first(images));
    at::Tensor again = other(normalized * 0.5 + torch::relu(normalized));
    const at::Tensor before = again * 2;
    again.relu_();
    return last((again + before + normalized).mean({2, 3}));
  }
};
TORCH_MODULE(SharingNet);

TEST(OwnModules, MayReadABatchNormBesideItsReLU) {
  const at::Tensor images = at::randn({6, 3, 12, 10});
  const Results engine = train_once(instance_of<SharingNet>(kInput), images, false),
                ours = train_once(instance_of<SharingNet>(kInput), images, true);
  expect_near(ours.logits, engine.logits);
  for (size_t i = 0; i < engine.gradients.size(); ++i) expect_near(ours.gradients[i], engine.gradients[i]);
}

TEST(OwnModules, SeeTheGradientOfABatchNormThatAReLUReads) {
  const kernels::DirectKernels scope(true);
  torch::manual_seed(3);
  torch::nn::BatchNorm2d norm(20);
  const at::Tensor input = at::randn({4, 20, 6, 6}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor normalized = norm(input);
  normalized.retain_grad();
  torch::relu(normalized).sum().backward();
  EXPECT_TRUE(at::equal(normalized.grad(), normalized.detach().gt(0).to(at::kFloat)));
}

at::Tensor normalized(const at::Tensor& weight, const at::Tensor& bias) {
  torch::manual_seed(5);
  const at::Tensor input = at::randn({4, 20, 6, 6}).contiguous(at::MemoryFormat::ChannelsLast);
  return at::batch_norm(input, weight, bias, at::zeros({20}), at::ones({20}), /*training=*/true,
                        /*momentum=*/0.1, /*eps=*/1e-5, /*cudnn_enabled=*/false);
}

/// What a module may do with a batch norm's output beside giving it to a ReLU; gives what it sees of the
/// gradients.
using Use =
    std::function<at::Tensor(const at::Tensor& normalized, const at::Tensor& weight, const at::Tensor& bias)>;

void expect_as_the_engine(const Use& use) {
  const auto run = [&](bool own_kernels) {
    const kernels::DirectKernels scope(own_kernels);
    const at::Tensor weight = at::linspace(0.5, 1.5, 20).requires_grad_(),
                     bias = at::linspace(-1, 1, 20).requires_grad_();
    return use(normalized(weight, bias), weight, bias);
  };
  const at::Tensor ours = run(true), engine = run(false);
  ASSERT_TRUE(ours.defined());
  expect_near(ours, engine);
}

TEST(OwnModules, SeeTheGradientOfABatchNormThatIsAskedForAfterItsReLU) {
  for (const bool read_by_others : {false, true}) {
    SCOPED_TRACE(read_by_others);
    const auto loss = [&](const at::Tensor& norm, const at::Tensor& output) {
      return output.square().sum() + (read_by_others ? 3 * norm.sum() : at::zeros({}));
    };
    expect_as_the_engine([&](const at::Tensor& norm, const at::Tensor&, const at::Tensor&) {
      const at::Tensor output = at::relu(norm);
      norm.retain_grad();
      loss(norm, output).backward();
      return norm.grad();
    });
    expect_as_the_engine([&](const at::Tensor& norm, const at::Tensor& weight, const at::Tensor&) {
      const at::Tensor output = at::relu(norm);
      norm.register_hook([](const at::Tensor& gradient) { return gradient.clamp(-1, 1); });
      loss(norm, output).backward();
      return weight.grad();
    });
    expect_as_the_engine([&](const at::Tensor& norm, const at::Tensor& weight, const at::Tensor&) {
      const auto gradients = torch::autograd::grad({loss(norm, at::relu(norm))}, {norm, weight});
      return at::cat({gradients[0].flatten(), gradients[1]});
    });
  }
}

TEST(OwnModules, MayChangeABatchNormsOutputBeforeItsReLU) {
  expect_as_the_engine([](const at::Tensor& norm, const at::Tensor& weight, const at::Tensor&) {
    {
      const torch::NoGradGuard no_grad;
      norm.sub_(0.7);
    }
    at::relu(norm).sum().backward();
    return weight.grad();
  });
}

TEST(OwnModules, MayGoOnWithABatchNormsOutputAfterItsBackward) {
  expect_as_the_engine([](const at::Tensor& norm, const at::Tensor&, const at::Tensor&) {
    (norm * 2).sum().backward();
    return at::relu(norm).detach();
  });
  // Its gradient does not depend on the bias.
  expect_as_the_engine([](const at::Tensor& norm, const at::Tensor& weight, const at::Tensor& bias) {
    {
      const torch::NoGradGuard no_grad;
      bias.add_(1);
    }
    norm.square().sum().backward();
    return weight.grad();
  });
}

TEST(OwnModules, MayGiveABiasThatDoesNotLieByItself) {
  torch::manual_seed(3);
  const at::Tensor table = at::randn({20, 4}), rows = at::randn({3, 8}), weight = at::randn({20, 8}),
                   images = at::randn({3, 8, 12, 12}), filters = at::randn({20, 8, 3, 3});
  for (const at::Tensor& bias : {table.select(1, 2), at::randn({1}).expand({20})}) {
    const auto run = [&](bool own_kernels) {
      const kernels::DirectKernels scope(own_kernels);
      return std::vector{at::linear(rows, weight, bias), at::addmm(bias, rows, weight.t()),
                         at::conv2d(images, filters, bias, 1, 1)};
    };
    const auto ours = run(true), engine = run(false);
    for (size_t i = 0; i < ours.size(); ++i) expect_near(ours[i], engine[i]);
  }
  const kernels::DirectKernels scope(true);
  EXPECT_THROW(at::conv2d(images, filters, at::randn({5}), 1, 1), c10::Error);
}

// A part of it would be missing without a word.
TEST(OwnModules, HaveNoSecondDerivative) {
  const Instance instance = instance_of<ViewingNet>(kInput);
  const at::Tensor images = at::randn({2, 3, 12, 10}).requires_grad_();
  const auto penalty = [&](bool own_kernels) {
    const kernels::DirectKernels scope(own_kernels);
    return torch::autograd::grad({instance.forward(images).sum()}, {images}, {}, /*retain_graph=*/true,
                                 /*create_graph=*/true)[0]
        .square()
        .sum();
  };
  EXPECT_TRUE(penalty(false).requires_grad());
  EXPECT_THROW(penalty(true), Error);
}

TEST(OwnModules, MayChangeWhatTheyView) {
  const kernels::DirectKernels scope(true);
  at::Tensor images = at::randn({2, 20, 4, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  images.view({2, 20, 16}).zero_();
  EXPECT_EQ(images.abs().sum().item<float>(), 0);
  EXPECT_EQ(images.view({2, -1}).sizes(), at::IntArrayRef({2, 320}));
  EXPECT_THROW(images.view({3, -1}), c10::Error);
}

/// In training alone it erases features by the rows that it views in them.
struct ErasingNetImpl : ViewingNetImpl {
  using ViewingNetImpl::ViewingNetImpl;

  at::Tensor forward(const at::Tensor& images) {
    was_channels_last = images.stride(1) == 1;
    const at::Tensor features = second(at::relu(norm(first(images))));
    if (is_training()) features.view({features.size(0), -1}).slice(1, 0, 300).zero_();
    return last(at::max_pool2d(features, 2).view({features.size(0), -1}));
  }
};
TORCH_MODULE(ErasingNet);

TEST(OwnModules, MayWriteThroughViewsInTrainingOnly) {
  torch::manual_seed(8);
  const Instance instance = instance_of<ErasingNet>(kInput);
  const at::Tensor images = at::randn({4, 3, 12, 10});
  const at::Tensor engine = train_once(instance, images, false).logits;
  expect_near(train_once(instance, images, true).logits, engine);
  EXPECT_FALSE(dynamic_cast<ErasingNetImpl&>(*instance.module).was_channels_last);
}

TEST(OwnModules, AreGivenImagesAsBeforeOutsideOfTheScope) {
  const Instance instance = instance_of<ViewingNet>(kInput);
  train_once(instance, at::randn({2, 3, 12, 10}), false);
  EXPECT_FALSE(dynamic_cast<ViewingNetImpl&>(*instance.module).was_channels_last);
}

/// Reads memory in the order that it takes for granted.
struct PointerNetImpl : torch::nn::Module {
  torch::nn::Linear last{nullptr};
  explicit PointerNetImpl(const NetworkInput& input) {
    last = register_module("last",
                           torch::nn::Linear(input.channels * input.height * input.width, input.classes));
  }
  at::Tensor forward(const at::Tensor& images) {
    return last(
        at::from_blob(images.data_ptr(), {images.size(0), images.numel() / images.size(0)}, at::kFloat));
  }
};
TORCH_MODULE(PointerNet);

TEST(OwnModules, ThatReadMemoryAreNotGivenItInAnotherOrder) {
  const Instance instance = instance_of<PointerNet>(kInput);
  EXPECT_FALSE(instance.channels_last);
  const at::Tensor images = at::randn({4, 3, 12, 10});
  const at::Tensor wanted = instance.forward(images);
  const kernels::DirectKernels scope(true);
  EXPECT_TRUE(at::allclose(instance.forward(images), wanted, 1e-4, 1e-5));
}

struct PartlyHeldNetImpl : ViewingNetImpl {
  torch::nn::Dropout held{nullptr};
  explicit PartlyHeldNetImpl(const NetworkInput& input) : ViewingNetImpl(input) {
    held = register_module("held", torch::nn::Dropout(0.5));
    held->eval();
  }
};
TORCH_MODULE(PartlyHeldNet);

TEST(OwnModules, KeepTheirModesAndTheGeneratorThroughTheTrial) {
  const Instance instance = instance_of<PartlyHeldNet>(kInput);
  const at::Tensor drawn = at::rand({1});
  auto& module = dynamic_cast<PartlyHeldNetImpl&>(*instance.module);
  EXPECT_TRUE(module.is_training());
  EXPECT_TRUE(module.norm->is_training());
  EXPECT_FALSE(module.held->is_training());
  EXPECT_EQ(module.norm->num_batches_tracked.item<int64_t>(), 0);
  torch::manual_seed(3);
  const PartlyHeldNet alone(kInput);
  EXPECT_TRUE(at::equal(drawn, at::rand({1})));
}

}  // namespace
}  // namespace lockstep::nn
