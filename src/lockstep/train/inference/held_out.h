// Finds the samples again that a run held out from training.
#pragma once

#include <string>
#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/record/event.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::train {

struct HeldOut {
  data::Dataset dataset;
  std::string words;                       ///< "1,000 held-out images of digits"
  std::vector<std::string> warnings = {};  ///< if they differ from those of the run
};

/// By a run's manifest and events: its --test data, otherwise its --validation data, otherwise the samples
/// that it split off. Throws not_found if there are none, or if they are not at their place any more.
HeldOut held_out_of_run(const std::filesystem::path& run_folder, const std::vector<record::Event>& events,
                        const Model& model);

/// On how many of these samples the model was trained, if its weights are in a run folder and the dataset is
/// the run's unchanged training data; otherwise 0.
int64_t trained_on(const Model& model, const data::Dataset& dataset);

}  // namespace lockstep::train
