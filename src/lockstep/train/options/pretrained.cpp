#include "lockstep/train/options/pretrained.h"

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

constexpr const char* kUsualNetwork = "resnet18";  // of colour images, as without --pretrained

}  // namespace

const nn::TrainedWeights* pretrained_weights(const Options& options) {
  if (options.pretrained.empty()) return nullptr;
  const bool is_free = options.network == "auto";
  const std::string name = options.pretrained != "auto" ? options.pretrained
                           : is_free                    ? kUsualNetwork
                                                        : options.network;
  const nn::TrainedWeights& weights = nn::trained_weights_of(name);
  if (!options.weights.empty())
    throw Error(ErrorCode::invalid_option, "--pretrained and --weights both give the weights to start from",
                "leave out one of them");
  if (!is_free && options.network != name)
    throw Error(ErrorCode::invalid_option,
                "--pretrained " + name + " are no weights of --network " + options.network,
                "leave out --network, or give --pretrained alone for weights of that network");
  return &weights;
}

}  // namespace lockstep::train
