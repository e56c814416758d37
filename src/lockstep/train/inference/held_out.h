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

/// On how many of these samples a model was trained.
struct TrainedOn {
  int64_t count = 0;
  int64_t held_out = 0;      ///< of the others, those that the run split off
  std::string unknown = {};  ///< why that is not certain; empty: it is
};

/// By the record of the run whose folder has the weights: by the names in the training data, which may have
/// moved since, otherwise by the places of the files.
TrainedOn trained_on(const Model& model, const data::Dataset& dataset);

/// "the run was trained on 22 of them", also if that is not certain; empty: on none.
///   samples  how many were asked about
///   them     what all of them are called
std::string trained_on_words(const TrainedOn& trained, int64_t samples, const std::string& them);

}  // namespace lockstep::train
