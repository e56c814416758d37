// How good a model of a loop of one's own is on held-out data, found by all ranks together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/image_set.h"
#include "lockstep/train/custom/built_model.h"

namespace lockstep::train {

struct ValidationOptions {
  int64_t mini_batch_size = 128;
  int64_t shards = 8;
  std::vector<double> mean =
      {};  ///< per channel, of pixels / 255 or of sequences' values, as the training's ShardOutput has them
  std::vector<double> deviation = {};
};

/// Equal on all ranks, with the same bits for any number of them; so a loop that ends by it ends on all.
struct Validation {
  double loss = 0;      ///< mean cross-entropy over the samples, or time steps, that have a class
  double accuracy = 0;  ///< share of them
  int64_t samples = 0;
};

/// Each rank computes its shards in evaluation mode; then the numbers of all are added. Pieces of streams
/// (data::stream_pieces) carry their state on: the mini-batch size is then the slots. Throws invalid_option
/// where nothing has a class. Every rank calls it. A dataset's images are decoded the first time and kept,
/// among shared_images and in a quarter of its memory at most, until the model is validated on another
/// dataset or is gone.
Validation validate(const BuiltModel& model, std::shared_ptr<const data::ImageSet> images,
                    comm::Communicator& comm, const ValidationOptions& options = {});
Validation validate(const BuiltModel& model, const data::Dataset& dataset, comm::Communicator& comm,
                    const ValidationOptions& options = {});

/// Ends a loop that learns no more, by the rule of fit's --patience. On every rank one of its own, told the
/// same validations: all end at the same step. MATLAB's ValidationPatience, by accuracy.
class Patience {
 public:
  /// Throws invalid_option unless validations is 1 or more.
  explicit Patience(int64_t validations);

  /// True when as many validations as were given, this one the last of them, had no better accuracy than the
  /// best before. One whose loss is no number is not better.
  bool ends_after(const Validation& validation);

  double best_accuracy() const { return best_accuracy_; }  ///< -1 before the first
  bool is_best() const {
    return since_best_ == 0;
  }  ///< whether the last validation is the best: time to keep its weights

 private:
  int64_t validations_;
  int64_t since_best_ = 0;
  double best_accuracy_ = -1;
};

/// validate().accuracy
double accuracy(const BuiltModel& model, const data::Dataset& dataset, comm::Communicator& comm,
                const ValidationOptions& options = {});

}  // namespace lockstep::train
