// An instance of a network whose weights lie elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/nn/network.h"
#include "lockstep/train/step/batch_norm.h"
#include "lockstep/train/step/shared_weights.h"

namespace lockstep::train {

/// A new instance whose first weights are a function of the seed.
nn::Instance seeded_instance(const nn::Network& network, const nn::NetworkInput& input, int64_t seed);

/// The first layers of a network if they never change and are in evaluation mode.
struct FrozenLayers {
  size_t count = 0;   ///< 0: none
  int64_t group = 0;  ///< samples that they take at once, copies of the first one in a smaller group; 0: all.
                      ///< With groups the output for a sample does not depend on the batch.
};

/// An instance whose parameters alias the weights of a worker's process, or of a replica. It has gradients of
/// its own. One thread at a time.
struct NetworkCopy {
  /// The parameters of `instance` must already alias `weights`.
  NetworkCopy(nn::Instance instance, const SharedWeights& weights, const std::vector<BatchNormInfo>& norms);

  /// The output of the frozen layers for [b,C,H,W], without gradients. They must be in evaluation mode.
  at::Tensor output_of_frozen(const at::Tensor& input, const FrozenLayers& frozen) const;

  /// The logits for [b,C,H,W]; the frozen layers are computed by output_of_frozen.
  at::Tensor logits(const at::Tensor& input, const FrozenLayers& frozen) const;

  /// The gradients of the last training pass, one per parameter, undefined if the parameter took no part.
  std::vector<at::Tensor> gradients() const;

  /// Throws invalid_option if a parameter no longer aliases the weights (a module that replaced its own
  /// parameter).
  void check_aliases() const;

  nn::Instance instance;
  const SharedWeights* weights;
  BatchNorms norms;
  std::vector<at::Tensor> parameters;
  bool training = false;  ///< in training mode
};

}  // namespace lockstep::train
