// What one layer of a trained network gives for samples.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/nn/observe.h"
#include "lockstep/train/predict.h"

namespace lockstep::train {

/// Called by several threads at once, for samples [first, first + b) of the dataset: [b,...] on the CPU, contiguous, of LayerOutputs::type().
using TakeRows = std::function<void(int64_t first, const at::Tensor& rows)>;

class LayerOutputs {
 public:
  /// longest: time steps of the longest sequence; 0 for pictures. Options as for predict. Throws invalid_option for a layer that is not there.
  LayerOutputs(const Model& model, const std::string& layer, int64_t longest, const Options& options);

  /// Of one sample. Where a layer gives an output for each time step, the last size is `longest`, with zeros after the sequence's end.
  const nn::Shape& shape() const { return layer_.shape; }
  at::ScalarType type() const;

  /// The same values for any number of workers. Not for tasks of a pool. Throws cancelled after a stop.
  void compute(const data::Dataset& dataset, const TakeRows& take, std::stop_token stop = {}) const;

 private:
  nn::ObservedLayer layer_;
  Model model_;
  int64_t longest_;
  Options options_;
};

}  // namespace lockstep::train
