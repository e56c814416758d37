// The samples that a run kept back from training, found again afterwards.
#pragma once

#include <string>
#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/io/event.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::train {

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
