// The trained network that `evaluate` and `predict` are given.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/cli/console.h"
#include "lockstep/cli/verb.h"
#include "lockstep/data/sources.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::cli {

/// The model of a run folder, or the weights file in one; or with --weights FILE a network by its name or
/// file. The rank that leads says on standard error what speaks against its weights.
train::Model open_model(const Call& call, Console& console, const comm::Communicator* group = nullptr);

/// Reads the weights and warns on standard error of numbers that are not finite, and of weights that are not
/// those the run around them saved.
void examine_weights(train::Model& model, Console& console);

/// `source`'s samples. With --on-bad-sample skip those that cannot be read are left out; what is left out is
/// named on standard error, by the rank that leads.
data::Dataset readable_samples(const data::Source& source, const train::Model& model,
                               const train::Options& options, Console& console,
                               const comm::Communicator* group = nullptr);

/// Predictions in the dataset's order, over `group` where there is one (over_ranks.h); none on ranks that do
/// not lead. Alone it shows how far it is.
std::vector<train::Prediction> predict(const Call& call, Console& console, const train::Model& model,
                                       const data::Dataset& dataset, const train::Options& options,
                                       comm::Communicator* group);

}  // namespace lockstep::cli
