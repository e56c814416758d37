// Processes that decode images for a rank: what the rank tells them, and what they do.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/data/loading_line.h"
#include "lockstep/train/options/training_request.h"
#include "lockstep/train/planning/prepare.h"

namespace lockstep::train {

/// From now on the rank's training images come from those at the other end of request.line, where it has one
/// and they can: not for sequences, images that GPUs decode, and data that the program itself gives.
void take_from_loaders(const TrainingRequest& request, const Options& options, const Prepared& prepared);

/// Opens the data as the rank has, and decodes what it expects until it ends; the number of images. An error
/// is told by `say`: the rank then decodes by itself.
int64_t load_for_rank(data::LoadingEnd& end, const std::function<void(const std::string&)>& say);

}  // namespace lockstep::train
