// Which samples of the training data are held out, to judge by.
#pragma once

#include <utility>

#include "lockstep/data/datastore.h"
#include "lockstep/train/options/options.h"

namespace lockstep::train {

/// Whether samples of the training data are held out where there is no --validation.
inline bool holds_out(const Options& options) {
  return options.validation_split > 0 || options.validation_count_per_class > 0;
}

/// Part of each label for training, the rest to be judged by.
std::pair<data::Dataset, data::Dataset> split_off_held_out(const data::Dataset& dataset,
                                                           const Options& options);

}  // namespace lockstep::train
