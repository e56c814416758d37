// The samples that a run kept back from training, found again afterwards.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/io/event.h"
#include "lockstep/train/options.h"
#include "lockstep/train/predict.h"

namespace lockstep::train {

/// Whether samples of the training data are held out where there is no --validation.
inline bool holds_out(const Options& options) {
  return options.validation_split > 0 || options.validation_count_per_class > 0;
}

/// Part of each label for training, the rest to be judged by.
std::pair<data::Dataset, data::Dataset> split_off_held_out(const data::Dataset& dataset,
                                                           const Options& options);

struct HeldOut {
  data::Dataset dataset;
  std::string words;                       ///< "1,000 held-out images of digits"
  std::vector<std::string> warnings = {};  ///< where it is not quite what the run had
};

/// Of a run by its manifest and events: its --validation data, else what it split off, else its --test data.
/// Throws not_found where there are none, or where they are not where they were.
HeldOut held_out_of_run(const std::filesystem::path& run_folder, const std::vector<io::Event>& events,
                        const Model& model);

/// How many of these samples the run that the weights lie in was trained on; 0 where they are not its
/// training data as they were, or the weights lie in no run.
int64_t trained_on(const Model& model, const data::Dataset& dataset);

}  // namespace lockstep::train
