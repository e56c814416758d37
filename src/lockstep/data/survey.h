// What sizes the pictures of a dataset have, from their headers alone.
#pragma once

#include <cstdint>

#include "lockstep/data/datastore.h"

namespace lockstep::data {

struct SizeSurvey {
  ImageSize common;              ///< the size that most have; the first of equals
  bool one_size = true;          ///< all that were looked at have it
  bool any_colour = false;       ///< one that was looked at has three channels
  bool looked_at_all = true;
  int64_t looked_at = 0;
  int64_t unreadable = 0;        ///< among those looked at; they count for nothing else
};

/// Looks at every picture when there are at most `most`, else at the first of each class and `most` evenly spaced ones: a stated sample, so
/// that the answer depends on the dataset alone. Throws what the first picture throws when none can be read; invalid_option for an empty dataset.
SizeSurvey survey_sizes(const Dataset& dataset, int64_t threads, int64_t most = 1000);

}  // namespace lockstep::data
