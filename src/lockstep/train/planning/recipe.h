// The recipe: values that suit the data, for options that were not given. They are chosen together, because a
// learning rate is good for one optimizer, network and mini-batch only. Nothing here depends on the machine
// or on the number of workers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/transform.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// What the recipe knows beside the options that are filled in.
struct RecipeFacts {
  const Options& asked;                   ///< as the user gave them
  const std::vector<std::string>& given;  ///< TrainingRequest::given
  data::ImageFormat format;
  int64_t train_count = 0;
  int64_t sample_count = 0;  ///< train_count and what is held out of the same data
  int64_t classes = 0;
  bool labels_time_steps = false;
  bool drawings = false;  ///< data::are_drawings, where may_be_drawings
};

/// Whether the recipe for images of this size wants to know if they are drawings, which takes reading some.
bool may_be_drawings(const data::ImageFormat& format);

/// A smaller --image-size for few photographs or drawings, and for larger ones than usual, on which the
/// recipe's own network begins with random weights. `options` have the input that weights want.
std::optional<RecipeValue> smaller_images(const RecipeFacts& facts, const Options& options);

/// --pretrained for few photographs, if nothing is given that it would decide, and the published weights are
/// in the cache.
std::optional<RecipeValue> trained_start(const RecipeFacts& facts);

/// The values of all other options that neither the user nor the weights to start from decide.
std::vector<RecipeValue> recipe_values(const RecipeFacts& facts, const Options& options);

}  // namespace lockstep::train
