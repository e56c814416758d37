// When the recipe is used, and how a run that has begun keeps the one it began with.
#pragma once

#include <optional>
#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/data/transform.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/options/training_request.h"
#include "lockstep/train/planning/recipe.h"

namespace lockstep::train {

/// --pretrained of a run that has this plan: as `options` have it, or as its recipe chose it.
std::string started_from(const Plan& plan, const Options& options);

/// The recipe of one preparation. Its functions change the options that they are given, in this order.
class RecipeUse {
 public:
  /// All must outlive the object. earlier: as for prepare.
  RecipeUse(const TrainingRequest& request, const Options& asked, const Plan* earlier)
      : request_(request), asked_(asked), earlier_(earlier) {}

  /// options.recipe becomes plain where there is no recipe. With an earlier plan its recipe is used again,
  /// whatever this program would choose.
  void begin(Options& options);

  /// Whether the training is to start from published weights (trained_start). The options must then be
  /// completed anew.
  bool starts_from_trained(const data::Dataset& train, const data::ImageFormat& format, Options& options);

  /// Whether the images are to be smaller than `format` (smaller_images).
  bool makes_images_smaller(const data::Dataset& train, const data::ImageFormat& format, Options& options);

  /// Chooses all other values. False if there is nothing to choose.
  bool choose(const data::Dataset& train, const data::ImageFormat& format, Options& options);

  /// Whether there is a recipe, and nobody gave the learning rate.
  bool leaves_rate_open() const;

  const RecipePlan& plan() const { return plan_; }

 private:
  bool chooses() const { return plan_.kind == Recipe::auto_ && earlier_ == nullptr; }
  RecipeFacts facts(const data::Dataset& train, const data::ImageFormat& format);
  void adopt(const std::vector<RecipeValue>& values, Options& options);

  const TrainingRequest& request_;
  const Options& asked_;
  const Plan* earlier_;
  RecipePlan plan_;
  std::optional<bool> drawings_ = {};         // looked for once
  std::optional<int64_t> sample_count_ = {};  // at the first call, before samples are held out
};

}  // namespace lockstep::train
