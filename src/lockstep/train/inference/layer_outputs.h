// The outputs of one layer of a trained network, computed here, in tasks of pools and over ranks.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/communicator.h"
#include "lockstep/nn/observe.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::train {

/// Called by several threads at once, for samples [first, first + b) of the dataset: [b,...] on the CPU,
/// contiguous, of LayerOutputs::type().
using TakeRows = std::function<void(int64_t first, const at::Tensor& rows)>;

struct Together;

/// Computes the outputs of one layer, in parts that `take` receives, for data whose outputs do not fit in
/// memory; layer_outputs returns them as one tensor.
class LayerOutputs {
 public:
  /// Options as for predict. Throws invalid_option if the network has no such layer.
  ///   longest  time steps of the longest sequence; 0 for images
  LayerOutputs(const Model& model, const std::string& layer, int64_t longest, const Options& options);

  /// Of one sample. If the layer has an output for each time step, the last size is `longest`, with zeros
  /// after the sequence's end.
  const nn::Shape& shape() const { return layer_.shape; }
  at::ScalarType type() const;

  /// The same values for any number of workers. Throws cancelled after a stop.
  /// In a task of a pool it stays on the task's workers and ends with the call, as predict does. All ranks of
  /// a group call it together; each computes its part of the samples, and rank 0's `take` gets all of them.
  void compute(const data::Dataset& dataset, const TakeRows& take, std::stop_token stop = {}) const;

  /// The same outside of a pool, by all ranks of a group, as predict (predict.h). Rank 0's `take` gets all
  /// samples.
  void compute(const data::Dataset& dataset, const TakeRows& take, comm::Communicator& comm,
               int64_t rank_here = 0) const;

 private:
  void compute_alone(const data::Dataset& dataset, const Options& options, const TakeRows& take,
                     std::stop_token stop) const;
  void compute_over(const data::Dataset& dataset, const TakeRows& take, const Together& together) const;
  void compute_part(const data::Dataset& dataset, const Options& options, const TakeRows& take,
                    const Together& together) const;

  nn::ObservedLayer layer_;
  Model model_;
  int64_t longest_;
  Options options_;
};

/// The outputs of a layer for all samples of a dataset, [samples,...] on the CPU; those of sequences are as
/// long as the longest one (LayerOutputs::shape). Options as for predict. In a task of a pool, all ranks of a
/// group call it together and all get the result. Throws as LayerOutputs does; cancelled after a stop.
at::Tensor layer_outputs(const Model& model, const std::string& layer, const data::Dataset& dataset,
                         const Options& options, std::stop_token stop = {});

}  // namespace lockstep::train
