// The trained network that `evaluate` and `predict` are given.
#pragma once

#include <array>
#include <filesystem>
#include <string>

#include "lockstep/base/describe.h"
#include "lockstep/cli/console.h"
#include "lockstep/data/sources.h"
#include "lockstep/train/predict.h"

namespace lockstep::cli {

enum class Weights { last, best };
constexpr std::array<const char*, 2> enum_names(Weights) { return {"last", "best"}; }

struct ModelChoice {
  Weights weights = Weights::last;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Model");
    field("weights", self.weights, "of a run folder: those after the last step, or those with the best validation accuracy");
  };
};

/// The model of a run folder, or the weights file in one.
train::Model open_model(const std::filesystem::path& path, Weights weights);

/// `source`'s samples. With --on-bad-sample skip those that cannot be read are left out; what is left out is named on standard error.
data::Dataset readable_samples(const data::Source& source, const train::Model& model, const train::Options& options, Console& console);

}  // namespace lockstep::cli
