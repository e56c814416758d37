// A training that several calls of fit make, each of which continues where the one before ended
// (TrainingRequest::standing).
#pragma once

#include <filesystem>

#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/loop/training.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/options/training_request.h"

namespace lockstep::train {

/// Whether this fit continues the training of an earlier one.
bool continues_standing(const TrainingRequest& request);

/// Counts steps and epochs over all calls of fit: `plan`, made for this call alone, begins at `state`. Throws
/// invalid_option if the cosine schedule of the learning rate has ended, or its length is unknown.
void continue_count(Plan& plan, const RunState& state);

/// What the next call of fit continues from. After run().
Standing standing_after(Training& training, const std::filesystem::path& output);

}  // namespace lockstep::train
