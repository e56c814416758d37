#include "lockstep/nn/operator_watch.h"

#include <functional>

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/nn/module.h"
#include "lockstep/nn/module_trial.h"

namespace lockstep::nn {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr NetworkInput kWatchedInput{.channels = 3, .height = 12, .width = 12, .classes = 5};

/// What a module does to its features [b,8,6,6].
using Between = std::function<at::Tensor(const at::Tensor&)>;

struct WatchedImpl : torch::nn::Module {
  WatchedImpl(const NetworkInput& input, Between done) : between(std::move(done)) {
    first = register_module("first",
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(input.channels, 8, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    pool = register_module("pool", torch::nn::MaxPool2d(2));
    second = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 8, 3).padding(1)));
    hidden = register_module("hidden", torch::nn::Linear(8, 16));
    last =
        register_module("last", torch::nn::Linear(torch::nn::LinearOptions(16, input.classes).bias(false)));
  }
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor x = between(pool(torch::relu(norm(first(images)))));
    const at::Tensor sum = torch::relu(second(x) + x);
    return last(torch::relu(hidden(at::adaptive_avg_pool2d(sum, {1, 1}).flatten(1))));
  }
  Between between;
  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::MaxPool2d pool{nullptr};
  torch::nn::Linear hidden{nullptr}, last{nullptr};
};
TORCH_MODULE(Watched);

struct TwiceImpl : torch::nn::Module {
  explicit TwiceImpl(const NetworkInput& input) {
    same = register_module("same",
                           torch::nn::Conv2d(torch::nn::Conv2dOptions(input.channels, input.channels, 3)));
    last = register_module("last", torch::nn::Linear(input.channels * 64, input.classes));
  }
  at::Tensor forward(const at::Tensor& images) { return last(same(same(images)).flatten(1)); }
  torch::nn::Conv2d same{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(Twice);

struct FlatImpl : torch::nn::Module {
  explicit FlatImpl(const NetworkInput& input) {
    norm = register_module("norm", torch::nn::BatchNorm1d(input.channels * 144));
    last = register_module("last", torch::nn::Linear(input.channels * 144, input.classes));
  }
  at::Tensor forward(const at::Tensor& images) { return last(norm(images.flatten(1))); }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(Flat);

class Same : public torch::autograd::Function<Same> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return at::relu(x); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return gradients;
  }
};

std::string why_samples_mix(const Network& network) {
  const Instance instance = network.make(kWatchedInput);
  const kernels::DirectKernels kernels(true);
  const at::Tensor images = made_up_images(kWatchedInput, 4);
  OperatorWatch watch(*instance.module, images);
  return watch.why_samples_mix(instance.forward(images));
}

std::string why_samples_mix(const Between& between) {
  return why_samples_mix(
      network("watched", [between](const NetworkInput& input) { return Watched(input, between); }));
}

TEST(OperatorWatch, KnownOperatorsKeepSamplesApart) {
  EXPECT_EQ(why_samples_mix(Between([](const at::Tensor& x) { return x; })), "");
  EXPECT_EQ(why_samples_mix(Between([](const at::Tensor& x) {
              return at::adaptive_avg_pool2d(at::hardtanh(at::cat({x, x}, -1), 0, 6), {6, 6});
            })),
            "");
}

TEST(OperatorWatch, OthersAreNamed) {
  const auto expect = [](const Between& between, const char* reason) {
    EXPECT_THAT(why_samples_mix(between), HasSubstr(reason));
  };
  expect([](const at::Tensor& x) { return x - x.mean(std::vector<int64_t>{0}); },
         "aten::mean.dim has arguments");
  expect([](const at::Tensor& x) { return at::dropout(x, 0.5, true); }, "aten::dropout is not known");
  expect([](const at::Tensor& x) { return x + at::rand_like(x); }, "aten::rand_like is not known");
  expect([](const at::Tensor& x) { return at::tanh(x); }, "aten::tanh is not known");
  expect(
      [](const at::Tensor& x) {
        return x.view({1, -1}).view(x.sizes());
      },
      "does not give a row for each sample");
  expect([](const at::Tensor& x) { return at::add(x, x, 2); }, "aten::add.Tensor has arguments");
  expect(
      [](const at::Tensor& x) {
        return at::cat({x, x}).narrow(0, 0, x.size(0));
      },
      "aten::cat has arguments");
  const at::Tensor other = at::ones({4, 8, 6, 6});
  expect([other](const at::Tensor& x) { return x + other; }, "aten::add.Tensor has arguments");
  expect([](const at::Tensor& x) { return Same::apply(x); }, "not known to keep samples apart");
}

// It would see the sum of several shards instead of each shard's gradient.
TEST(OperatorWatch, AHookIsRefusedAlsoIfItChangesNothingYet) {
  const auto clamp = [](const at::Tensor& gradient) { return gradient.clamp(-1e6, 1e6); };
  EXPECT_THAT(why_samples_mix(Between([clamp](const at::Tensor& x) {
                x.register_hook(clamp);
                return x;
              })),
              AnyOf(HasSubstr("has a hook"), HasSubstr("aten::batch_norm uses a kernel of LibTorch")))
      << "our batch norm leaves an output with a hook to LibTorch";
  EXPECT_THAT(why_samples_mix(network("clamped",
                                      [clamp](const NetworkInput& input) {
                                        Watched made(input, [](const at::Tensor& x) { return x; });
                                        made->hidden->weight.register_hook(clamp);
                                        return made;
                                      })),
              HasSubstr("AccumulateGrad has a hook"));
}

TEST(OperatorWatch, ALayerMustUseKernelsThatAddGradientsInTheTree) {
  EXPECT_THAT(why_samples_mix(network("flat", [](const NetworkInput& input) { return Flat(input); })),
              HasSubstr("aten::batch_norm uses a kernel of LibTorch"));
  EXPECT_THAT(why_samples_mix(network("frozen",
                                      [](const NetworkInput& input) {
                                        Watched made(input, [](const at::Tensor& x) { return x; });
                                        for (at::Tensor& weight : made->first->parameters())
                                          weight.requires_grad_(false);
                                        return made;
                                      })),
              HasSubstr("aten::conv2d has no gradient"));
}

TEST(OperatorWatch, AWeightThatIsUsedTwiceHasASumOfGradients) {
  EXPECT_THAT(why_samples_mix(network("twice", [](const NetworkInput& input) { return Twice(input); })),
              HasSubstr("aten::conv2d uses a weight for the second time"));
}

}  // namespace
}  // namespace lockstep::nn
