// Which samples of the training data are held out, to judge by.
#pragma once

#include <string>
#include <utility>

#include "lockstep/data/datastore.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/planning/open_data.h"

namespace lockstep::train {

/// Whether samples of the training data are held out if there is no --validation.
inline bool holds_out(const Options& options) {
  return options.validation_split > 0 || options.validation_count_per_class > 0 ||
         options.validation_folds > 0;
}

/// The samples for training, and those held out: a part of each label.
std::pair<data::Dataset, data::Dataset> split_off_held_out(const data::Dataset& dataset,
                                                           const Options& options);

/// Of `all` mini-batches, how many --limit-batches leaves: at least one.
int64_t limited_batches(double limit, int64_t all);

/// Leaves of each set the samples of so many mini-batches of this size (--limit-batches): the same share of
/// each label, to within one sample, spread evenly over those with the label. Sets that are smaller stay as
/// they are.
void limit_samples(Datasets& sets, double limit, int64_t mini_batch_size);

/// Without validation data, splits the training data as the options say; `whole` is then the images before
/// the split. Returns the reason for the plan. Throws invalid_option for a split of training data beside
/// separate validation data.
///   data  its format and resize_to are read
std::string hold_out(Datasets& sets, const Options& options, const DataPlan& data);

}  // namespace lockstep::train
