// The score of a custom loop's model on held-out data, computed by all ranks together.
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
  std::vector<double> mean = {};  ///< per channel, as in the training's ShardOutput
  std::vector<double> deviation = {};
};

/// Equal on all ranks, with the same bits for any number of ranks, so a loop that ends by it ends on all
/// ranks.
struct Validation {
  double loss = 0;      ///< mean cross-entropy over the samples, or time steps, that have a class
  double accuracy = 0;  ///< share of these that are correct
  int64_t samples = 0;
};

/// Each rank computes its shards in evaluation mode; then the results of all ranks are added. For pieces of
/// streams (data::stream_pieces) the recurrent state continues from piece to piece, and the mini-batch size
/// must be the number of slots. Throws invalid_option if no sample has a class. Every rank calls it. The
/// images of a dataset are decoded the first time and kept with shared_images, in at most a quarter of their
/// memory, until the model is validated on another dataset or destroyed.
Validation validate(const BuiltModel& model, std::shared_ptr<const data::ImageSet> images,
                    comm::Communicator& comm, const ValidationOptions& options = {});
Validation validate(const BuiltModel& model, const data::Dataset& dataset, comm::Communicator& comm,
                    const ValidationOptions& options = {});

/// Ends a loop whose accuracy does not rise any more, by the rule of `lockstep train --patience` (MATLAB's
/// ValidationPatience). Every rank has its own and gives it the same validations, so all ranks end at the
/// same step.
class Patience {
 public:
  /// Throws invalid_option unless validations is 1 or more.
  explicit Patience(int64_t validations);

  /// True if the last `validations` validations, with this one, had no better accuracy than the best one
  /// before them. A validation whose loss is NaN is not better.
  bool ends_after(const Validation& validation);

  double best_accuracy() const { return best_accuracy_; }  ///< -1 before the first
  bool is_best() const {
    return since_best_ == 0;
  }  ///< whether the last validation is the best one, whose weights are worth keeping

 private:
  int64_t validations_;
  int64_t since_best_ = 0;
  double best_accuracy_ = -1;
};

/// validate().accuracy
double accuracy(const BuiltModel& model, const data::Dataset& dataset, comm::Communicator& comm,
                const ValidationOptions& options = {});

}  // namespace lockstep::train
