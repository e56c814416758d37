// Trains your own network, a plain torch::nn::Module, on a folder that has a subfolder of images for each
// class.
//
//   scripts/build && cmake --install build/release --prefix ~/lockstep
//   cmake -S examples/own_network -B build/own_network -DCMAKE_PREFIX_PATH=~/lockstep
//   cmake --build build/own_network
//   mkdir digits && tar -xzf data/digits-png.tar.gz -C digits --strip-components=1
//   build/own_network/own_network digits
//
// Its last line:
//   accuracy 0.967 on images it has not seen; the weights are in runs/own_network-001/model.safetensors
// Ctrl-C saves a checkpoint, and the run's name continues it:
//   build/own_network/own_network digits runs/own_network-001
#include <cstdio>

#include <torch/nn.h>

#include "lockstep/lockstep.h"

using namespace lockstep;

struct OwnNetworkImpl : torch::nn::Module {
  explicit OwnNetworkImpl(const nn::NetworkInput& input)
      : convolution(register_module(
            "convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(input.channels, 16, 5).padding(2)))),
        norm(register_module("norm", torch::nn::BatchNorm2d(16))),
        head(register_module(
            "head", torch::nn::Linear(16 * (input.height / 2) * (input.width / 2), input.classes))) {}

  torch::Tensor forward(const torch::Tensor& images) {
    const auto features = torch::relu(norm(convolution(images)));
    return head(torch::dropout(torch::max_pool2d(features, 2).flatten(1), 0.2, is_training()));
  }

  torch::nn::Conv2d convolution;
  torch::nn::BatchNorm2d norm;
  torch::nn::Linear head;
};
TORCH_MODULE(OwnNetwork);

void client(Session& session) {
  const StopSignals signals("saving a checkpoint; press Ctrl-C again to kill");
  const std::vector<std::string>& arguments = session.arguments();
  if (arguments.empty() || arguments.size() > 2)
    throw Error(ErrorCode::invalid_option, "the arguments are not a folder of images, or this and a run",
                "usage: own_network FOLDER [RUN-TO-CONTINUE]");
  train::Options options{.max_epochs = 3};
  if (arguments.size() == 2) {
    options.output = arguments.back();
    options.resume = true;
  }
  const auto network =
      nn::network("own_network", [](const nn::NetworkInput& input) { return OwnNetwork(input); });
  const data::ImageFolder images(arguments.front());
  // All cores train; the weights have the same bits on one core and on all.
  const auto show = [](const record::Event& event) {
    if (event.kind != "validation") return record::Control::go;
    const double accuracy = record::number(event, "accuracy");
    std::printf("epoch %d: accuracy %.3f\n", static_cast<int>(event.epoch), accuracy);
    return accuracy >= 0.99 ? record::Control::stop : record::Control::go;
  };
  const train::Result result = train::fit(network, images, options, show, signals.token());
  if (result.reason == train::EndReason::stopped) {
    std::printf("stopped; to continue: own_network %s %s\n", arguments.front().c_str(),
                result.output.c_str());
    return;
  }
  std::printf("accuracy %.3f on images it has not seen; the weights are in %s\n", result.accuracy,
              result.weights.c_str());
}

// Prints an error with its hint, and returns the exit status.
int main(int argc, char** argv) { return run(argc, argv, {}, client); }
