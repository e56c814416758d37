#include "lockstep/nn/pretrained.h"

#include "lockstep/nn/layers.h"
#include "lockstep/nn/trained_weights.h"

namespace lockstep::nn {

Pretrained pretrained(const std::string& network, const PretrainedOptions& options) {
  const TrainedWeights& weights = trained_weights_of(network);
  return {.network = find_network(network),
          .weights = get_trained_weights(weights, options.mirror, options.download),
          .input = weights.expected_input()};
}

}  // namespace lockstep::nn
