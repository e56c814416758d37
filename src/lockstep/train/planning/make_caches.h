// The caches of decoded images that a run would use, made before it.
#pragma once

#include <vector>

#include "lockstep/train/cache/image_caches.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/training_request.h"

namespace lockstep::train {

/// make_cache for the images of request.folder and of --validation and --test, as a run with these options
/// reads them.
std::vector<CacheReport> make_caches(const TrainingRequest& request, const Options& options);

}  // namespace lockstep::train
