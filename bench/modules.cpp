// One side of bench/modules: digits_cnn trained as the built-in layer graph, as a module of torch::nn, or in
// a custom loop.
//
//   lockstep_bench_modules FOLDER OUTPUT WORKERS EPOCHS graph|module|loop 32-true|bf16-mixed
//
// Prints a line of JSON: images/s without the first step.
#include <chrono>
#include <cstdio>

#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/base/seconds.h"
#include "lockstep/lockstep.h"

using namespace lockstep;

namespace {

constexpr int64_t kMiniBatch = 128;
constexpr int64_t kFilters = 20;

// nn/zoo/digits_cnn.cpp, written with LibTorch alone.
struct DigitsCnnImpl : torch::nn::Module {
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr}, conv3{nullptr};
  torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr}, norm3{nullptr};
  torch::nn::Linear last{nullptr};

  explicit DigitsCnnImpl(const nn::NetworkInput& input) {
    const auto same_size = [] { return torch::nn::Conv2dOptions(kFilters, kFilters, 3).padding(1); };
    conv1 =
        register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(input.channels, kFilters, 5)));
    norm1 = register_module("norm1", torch::nn::BatchNorm2d(kFilters));
    conv2 = register_module("conv2", torch::nn::Conv2d(same_size()));
    norm2 = register_module("norm2", torch::nn::BatchNorm2d(kFilters));
    conv3 = register_module("conv3", torch::nn::Conv2d(same_size()));
    norm3 = register_module("norm3", torch::nn::BatchNorm2d(kFilters));
    last = register_module(
        "last", torch::nn::Linear(kFilters * (input.height - 4) * (input.width - 4), input.classes));
  }
  at::Tensor forward(at::Tensor images) {
    images = torch::relu(norm1(conv1(images)));
    images = torch::relu(norm2(conv2(images)));
    images = torch::relu(norm3(conv3(images)));
    return last(images.flatten(1));
  }
};
TORCH_MODULE(DigitsCnn);

DigitsCnn make_digits_cnn(const nn::NetworkInput& input) { return DigitsCnn(input); }

struct Settings {
  std::string folder;
  int64_t epochs = 1;
  train::Precision precision = train::Precision::single;
};

double loop(pool::Worker& worker, const Settings& settings) {
  const data::ImageFolder images(settings.folder);
  const auto model =
      train::build(worker, nn::find_network("digits_cnn"), images, {.precision = settings.precision});
  train::Sgdm sgdm(model.parameters(), {.learning_rate = 0.01, .momentum = 0.9});
  std::chrono::steady_clock::time_point start;
  int64_t counted = 0;
  for (const auto& batch : data::MiniBatchQueue(images, worker.share(),
                                                {.mini_batch_size = kMiniBatch,
                                                .epochs = settings.epochs,
                                                .shared = train::shared_images(worker)})) {
    const auto own = train::loss_and_gradients(model, batch, [&](const data::Shard& shard) {
      return nn::cross_entropy_sum(model.forward(shard.input), shard.target);
    });
    sgdm.step(train::exchange(worker, own).gradients);
    if (batch.iteration == 0) start = std::chrono::steady_clock::now();
    if (batch.iteration > 0) counted += batch.global_count;
  }
  return static_cast<double>(counted) / seconds_since(start);
}

double fit(const nn::Network& network, const Settings& settings, const std::string& output, int64_t workers) {
  train::Options options;
  options.mini_batch_size = kMiniBatch;
  options.max_epochs = settings.epochs;
  options.patience = 0;
  options.validation_split = 0;
  options.precision = settings.precision;
  options.output = output;
  options.workers = workers;
  return train::fit(network, data::ImageFolder(settings.folder), options).images_per_second;
}

void client(pool::Session& session) {
  const auto& words = session.arguments();
  if (words.size() != 6)
    throw Error(ErrorCode::invalid_option, "six words are needed",
                "FOLDER OUTPUT WORKERS EPOCHS graph|module|loop PRECISION");
  const Settings settings{words[0], std::stoll(words[3]),
                          words[5] == "bf16-mixed" ? train::Precision::bf16_mixed : train::Precision::single};
  const int64_t workers = std::stoll(words[2]);
  const double rate =
      words[4] == "loop" ? session.open_pool({.workers = workers})
                               .spmd([&](pool::Worker& worker) { return loop(worker, settings); })
                               .front()
      : words[4] == "graph"
          ? fit(nn::find_network("digits_cnn"), settings, words[1], workers)
          : fit(nn::network<make_digits_cnn>("digits_cnn_module"), settings, words[1], workers);
  std::printf("%s\n", Json{{"images_per_second", rate}}.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) { return lockstep::run(argc, argv, {}, client); }
