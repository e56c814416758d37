// The trained network that `evaluate` and `predict` use.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/cli/console.h"
#include "lockstep/cli/verb.h"
#include "lockstep/data/sources.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::cli {

struct ModelChoice {
  std::string weights = "last";
  std::string classes;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Model");
    field("weights", self.weights,
          "weights to use; for a run folder: last (after the last step) or best (of all validations); for a "
          "network: a file, "
          "safetensors or written by torch.save");
    field("classes", self.classes,
          "file with the class names of a network, one per line, in the order of its outputs; empty: their "
          "numbers");
  };
};

/// The values of ModelChoice and of the input options, as fields of a command.
std::vector<FieldInfo> model_fields();

/// The model of a run folder, of a weights file inside one, or of a network given by name or file with
/// --weights FILE. The leading rank reports problems with its weights on standard error.
train::Model open_model(const Call& call, Console& console, const comm::Communicator* group = nullptr);

/// Reads the weights. Warns on standard error about numbers that are not finite, and about weights that
/// differ from those that the run saved.
void examine_weights(train::Model& model, Console& console);

/// The samples of `source`. With --on-bad-sample skip, unreadable samples are skipped, and the leading rank
/// reports them on standard error.
data::Dataset readable_samples(const data::Source& source, const train::Model& model,
                               const train::Options& options, Console& console,
                               const comm::Communicator* group = nullptr);

/// Predictions in the dataset's order, computed over `group` if there is one (over_ranks.h); empty on ranks
/// that do not lead. Without a group it shows its progress.
std::vector<train::Prediction> predict(const Call& call, Console& console, const train::Model& model,
                                       const data::Dataset& dataset, const train::Options& options,
                                       comm::Communicator* group);

}  // namespace lockstep::cli
