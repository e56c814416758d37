// The trained network that `evaluate` and `predict` are given.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/cli/console.h"
#include "lockstep/cli/verb.h"
#include "lockstep/data/sources.h"
#include "lockstep/train/predict.h"

namespace lockstep::cli {

struct ModelChoice {
  std::string weights = "last";
  std::string classes;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Model");
    field("weights", self.weights, "of a run folder: last (after the last step) or best (of the validations); of a network: a file, safetensors or of torch.save");
    field("classes", self.classes, "of a network: a file with a class name on each line, in the order of its outputs; empty: their numbers");
  };
};

/// What ModelChoice and the options of the input say; for fields of a command.
std::vector<FieldInfo> model_fields();

/// The model of a run folder, or the weights file in one; or with --weights FILE a network by its name or file.
train::Model open_model(const Call& call);

/// A trained network, how it is to run, and where: `group` is null without ranks (over_ranks.h).
struct Inference {
  const train::Model& model;
  const train::Options& options;
  comm::Communicator* group;

  /// Predictions of `source`'s samples, in their order; none on ranks that do not lead. With --on-bad-sample skip samples that cannot be read are left out; what
  /// is left out is named on standard error.
  std::vector<train::Prediction> predict(const data::Source& source, Console& console) const;
};

}  // namespace lockstep::cli
