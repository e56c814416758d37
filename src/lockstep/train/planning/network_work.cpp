#include "lockstep/train/planning/network_work.h"

#include "lockstep/nn/layers.h"

namespace lockstep::train {

double forward_work(const nn::Network& network, const nn::NetworkInput& input) {
  if (network.spec().is_null()) return 0;
  double work = 0;
  for (const nn::LayerRow& row : nn::inspect_network(network, input).rows) {
    double places = 1;
    for (size_t i = 1; i < row.shape.size(); ++i) places *= static_cast<double>(row.shape[i]);
    // Recurrent layers use their weights at every time step, also where they return only the last output.
    if (input.time_steps > 0 && row.shape.size() == 1 &&
        (row.type == "lstm" || row.type == "gru" || row.type == "bilstm"))
      places = static_cast<double>(input.time_steps);
    work += places * static_cast<double>(row.learnable_count);
  }
  return work;
}

}  // namespace lockstep::train
