#include "lockstep/train/step/shard_runner.h"

#include <span>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "lockstep/nn/folded_batch_norm.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/module.h"
#include "lockstep/nn/state.h"
#include "lockstep/train/step/test_shards.h"

namespace lockstep::train {
namespace {

const std::vector<int64_t> kDigitImage{1, 28, 28};
constexpr int64_t kDigitClasses = 10;

constexpr nn::NetworkInput kRunnerInput{1, 28, 28, 10};

// A network with a runner that trains it.
struct TrainedNetworkCopy {
  explicit TrainedNetworkCopy(const std::string& network, ShardRunnerOptions options = {})
      : TrainedNetworkCopy(nn::find_network(network), options) {}
  explicit TrainedNetworkCopy(const nn::Network& network, ShardRunnerOptions options = {})
      : instance(seeded_instance(network, kRunnerInput, 1)),
        weights(instance, at::kFloat, at::kCPU),
        norms(probe_batch_norms(instance, kRunnerInput)),
        runner(instance, weights, norms, options) {}

  // Loss, correct samples and, from training, batch norms' statistics of each shard.
  std::vector<ShardResult> reduced(std::vector<ShardResult> results) const {
    const bool has_statistics = results.front().unread.front().numel() > 2;
    reduce_results(results, static_cast<int64_t>(results.size()), /*pieces=*/1,
                   has_statistics ? norms : std::vector<BatchNormInfo>(), *comm::make_communicator());
    return results;
  }

  void expect_equal(const std::vector<ShardResult>& found, const std::vector<ShardResult>& wanted) const {
    const std::vector<ShardResult> ours = reduced(found), expected = reduced(wanted);
    ASSERT_EQ(ours.size(), expected.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i].loss, expected[i].loss);
      EXPECT_EQ(ours[i].correct, expected[i].correct);
      EXPECT_EQ(ours[i].targets, expected[i].targets);
      EXPECT_EQ(ours[i].moments.values, expected[i].moments.values);
    }
  }

  nn::Instance instance;
  SharedWeights weights;
  std::vector<BatchNormInfo> norms;
  ShardRunner runner;
};

TEST(ShardRunner, ShardsTrainedTogetherGiveTheirOwnResults) {
  at::set_num_threads(1);
  // The last two have dropout; some of their convolutions are the engine's.
  for (const char* name : {"lenet", "digits_cnn", "squeezenet", "mobilenet_v2"}) {
    TrainedNetworkCopy trained(name);
    const std::vector<data::Shard> shards = test::shards_of(4, 8, kDigitImage, kDigitClasses);
    EXPECT_EQ(trained.runner.most_together(8), 1) << "before one was trained";
    std::vector<ShardResult> alone;
    std::vector<std::vector<at::Tensor>> gradients;
    for (const data::Shard& shard : shards) {
      alone.push_back(trained.runner.train(shard, 32, /*step=*/0));
      gradients.push_back(trained.runner.gradients());
    }
    ASSERT_EQ(trained.runner.most_together(8), 8) << name;
    trained.expect_equal(trained.runner.train_together({data::joined(shards), 4}, 32, /*step=*/0), alone);
    const std::vector<at::Tensor> sums = trained.runner.gradients();
    for (size_t p = 0; p < sums.size(); ++p) {
      EXPECT_TRUE(
          at::equal(sums[p], (gradients[0][p] + gradients[1][p]) + (gradients[2][p] + gradients[3][p])))
          << name << " " << trained.weights.slots()[p].name;
    }
  }
}

// 64 channels of 28x28 in float32 are 196 KB, of which 64 samples fit into a piece.
TEST(ShardRunner, ALargeShardIsEvaluatedInPieces) {
  at::set_num_threads(1);
  TrainedNetworkCopy trained(nn::read_network(Json::parse(R"([
    {"type":"conv2d","filters":64,"kernel":3,"padding":1}, {"type":"batch_norm"}, {"type":"relu"},
    {"type":"global_average_pool"}, {"type":"flatten"}, {"type":"linear","features":"classes"}])"),
                                              "wide_images"));
  trained.runner.begin_evaluation();
  const data::Shard shard = test::shards_of(1, 150, kDigitImage, kDigitClasses).front();
  at::Tensor whole;
  const ShardResult result = trained.runner.evaluate(shard, &whole);
  EXPECT_EQ(result.count, 150);
  EXPECT_EQ(whole.sizes(), (at::IntArrayRef{150, 10}));
  for (const int64_t begin : {0, 64, 128}) {
    const int64_t count = std::min<int64_t>(64, 150 - begin);
    at::Tensor piece;
    trained.runner.evaluate({.images = shard.images.narrow(0, begin, count),
                             .target = shard.target.narrow(0, begin, count),
                             .count = count},
                            &piece);
    EXPECT_TRUE(at::equal(piece, whole.narrow(0, begin, count))) << begin;
  }
}

// Plain, fire and depthwise layers, residual sums, what no built-in network has, and folded batch norms.
std::vector<nn::Network> evaluated_networks() {
  std::vector<nn::Network> networks;
  for (const char* name : {"lenet", "digits_cnn", "squeezenet", "mobilenet_v2", "resnet18"})
    networks.push_back(nn::find_network(name));
  networks.push_back(nn::read_network(Json::parse(R"([
    {"type":"conv2d","filters":12,"kernel":3,"padding":2,"dilation":2}, {"type":"relu"},
    {"type":"conv2d","filters":24,"kernel":3,"padding":1,"groups":4}, {"type":"batch_norm"}, {"type":"relu"},
    {"type":"average_pool","kernel":3,"stride":2}, {"type":"flatten"},
    {"type":"linear","features":"classes"}])"),
                                      "grouped"));
  const nn::Network& normed = networks[1];
  const nn::Instance instance = seeded_instance(normed, kRunnerInput, 1);
  const auto folded = nn::with_folded_batch_norms(normed, nn::state_of(*instance.module), at::kFloat);
  EXPECT_LT(seeded_instance(folded.network, kRunnerInput, 1).layers.size(), instance.layers.size());
  networks.push_back(folded.network);
  return networks;
}

TEST(ShardRunner, ShardsEvaluatedTogetherHaveTheirOwnScores) {
  at::set_num_threads(1);
  const std::vector<nn::Network> networks = evaluated_networks();
  for (const Precision precision : {Precision::single, Precision::bf16_mixed}) {
    for (size_t n = 0; n < networks.size(); ++n) {
      TrainedNetworkCopy trained(networks[n], {.precision = precision});
      trained.runner.begin_evaluation();
      for (const int64_t samples : {2, 5}) {
        const std::vector<data::Shard> shards = test::shards_of(7, samples, kDigitImage, kDigitClasses);
        ASSERT_GE(trained.runner.most_evaluated(), 7 * samples) << "network " << n;
        std::vector<at::Tensor> own(shards.size());
        std::vector<ShardResult> alone;
        for (size_t i = 0; i < shards.size(); ++i) {
          const kernels::ShardsTogether one(1);
          alone.push_back(trained.runner.evaluate(shards[i], &own[i]));
          EXPECT_FALSE(one.mixed()) << "network " << n;
        }
        for (const size_t count : {2, 3, 7}) {
          const kernels::ShardsTogether together(static_cast<int64_t>(count));
          at::Tensor all;
          const data::Shard joined = data::joined(std::span(shards).first(count));
          trained.runner.evaluate(joined, &all);
          EXPECT_TRUE(at::equal(all, at::cat(at::TensorList(own.data(), count))))
              << "network " << n << ", " << count << " shards of " << samples;
          trained.expect_equal(trained.runner.evaluate_together(joined, static_cast<int64_t>(count)),
                               {alone.begin(), alone.begin() + static_cast<std::ptrdiff_t>(count)});
        }
      }
    }
  }
}

TEST(ShardRunner, OneShardAtATimeWhereTheEngineComputesOrShardsAreLarge) {
  at::set_num_threads(1);
  const auto most_together = [](TrainedNetworkCopy trained, int64_t samples) {
    trained.runner.train(test::shards_of(1, samples, kDigitImage, kDigitClasses).front(), samples,
                         /*step=*/0);
    return trained.runner.most_together(samples);
  };
  EXPECT_EQ(most_together(TrainedNetworkCopy("lenet", {.kernels = Kernels::engine}), 8), 1);
  EXPECT_EQ(most_together(TrainedNetworkCopy("lenet", {.accumulate = 2}), 8), 1);
  EXPECT_EQ(most_together(TrainedNetworkCopy("digits_cnn"), 100), 1) << "one alone is enough";
}

/// One weight that is used twice. `between` runs between the two uses.
struct TwiceImpl : torch::nn::Module {
  torch::nn::Conv2d same{nullptr};
  torch::nn::Linear last{nullptr};
  std::function<void()> between = [] {};

  explicit TwiceImpl(const nn::NetworkInput& input) {
    same = register_module("same", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 1, 5).padding(2)));
    last = register_module("last", torch::nn::Linear(input.height * input.width, input.classes));
  }
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor first = at::relu(same(images));
    between();
    return last(at::relu(same(first)).flatten(1));
  }
};
TORCH_MODULE(Twice);

TEST(ShardRunner, AWeightThatAModuleUsesTwiceHasTheSameGradientBesideAnotherTraining) {
  at::set_num_threads(1);
  const std::vector<data::Shard> shards = test::shards_of(1, 64, kDigitImage, kDigitClasses);
  const auto gradient = [&](const std::function<void(TwiceImpl&)>& change) {
    TrainedNetworkCopy trained(
        nn::network("twice", [](const nn::NetworkInput& input) { return Twice(input); }),
        {.precision = Precision::bf16_mixed, .kernels = Kernels::engine});
    change(dynamic_cast<TwiceImpl&>(*trained.instance.module));
    trained.runner.train(shards[0], 64, /*step=*/0);
    return trained.runner.gradients()[0].clone();
  };
  const at::Tensor alone = gradient([](TwiceImpl&) {});
  EXPECT_GT(alone.abs().max().item<float>(), 0);
  EXPECT_TRUE(
      at::equal(gradient([](TwiceImpl& module) { module.between = AutocastScope::forget_casts; }), alone))
      << "another training made a step";
}

TEST(ShardRunner, IsGoneWithItsWeights) {
  for (const char* name : {"lenet", "digits_cnn"}) {
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> weight(at::Tensor().getIntrusivePtr());
    {
      TrainedNetworkCopy trained(name, {.precision = Precision::bf16_mixed, .kernels = Kernels::engine});
      trained.runner.train(test::shards_of(1, 8, kDigitImage, kDigitClasses)[0], 8, /*step=*/0);
      weight = decltype(weight)(trained.instance.module->parameters().front().getIntrusivePtr());
    }
    EXPECT_TRUE(weight.expired()) << name;
  }
}

// What --detect-anomaly says of one shard, all of class 1, after `spoil` has changed the weights.
std::string anomaly_of(const std::function<void(nn::Instance&)>& spoil) {
  TrainedNetworkCopy trained("lenet", {.detect_anomaly = true});
  {
    const torch::NoGradGuard no_grad;
    spoil(trained.instance);
  }
  data::Shard shard = test::shards_of(3, 4, kDigitImage, kDigitClasses)[2];
  shard.target.fill_(1);
  try {
    trained.runner.train(shard, /*target_count=*/1, /*step=*/6);
    return "";
  } catch (const Error& error) {
    return error.message();
  }
}

at::Tensor parameter_of(const nn::Instance& instance, const std::string& name) {
  return instance.module->named_parameters()[name];
}

TEST(ShardRunner, AnAnomalyIsNamedWithItsLayerAndShard) {
  EXPECT_EQ(anomaly_of([](nn::Instance&) {}), "");
  EXPECT_EQ(anomaly_of([](nn::Instance& lenet) { parameter_of(lenet, "2.weight")[0][0][0][0] = NAN; }),
            "forward of layer \"2\" is the first that gave values that are NaN in step 7, in shard 2");
}

// Small outputs and huge weights: the logits are finite, and their gradient times the weights is not.
TEST(ShardRunner, AnAnomalyOfBackwardIsNamedWithTheLayerThatGaveIt) {
  const std::string found = anomaly_of([](nn::Instance& lenet) {
    parameter_of(lenet, "5.weight").zero_();
    parameter_of(lenet, "5.bias").fill_(1e-30);
    for (int64_t label = 0; label < 10; ++label)
      parameter_of(lenet, "7.weight")[label].fill_(label % 2 == 0 ? 3e38 : -3e38);
  });
  EXPECT_EQ(
      found,
      "backward of layer \"7\" is the first that gave gradients that are infinite in step 7, in shard 2");
}

}  // namespace
}  // namespace lockstep::train
