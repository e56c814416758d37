// What sizes the images of a dataset have, from their headers alone.
#pragma once

#include <cstdint>

#include "lockstep/data/datastore.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// Pixels a side that networks for photographs usually get.
constexpr int64_t kPhotographSide = 224;

struct SizeSurvey {
  ImageSize typical;  ///< the middle height and the middle width, so the size that most have where most have
                      ///< one; 3 channels where any has
  bool one_size = true;     ///< all that were looked at have it
  bool any_colour = false;  ///< one that was looked at has three channels
  bool looked_at_all = true;
  int64_t looked_at = 0;
  int64_t unreadable = 0;  ///< among those looked at; they count for nothing else
};

/// Looks at every image when there are at most `most`, else at the first of each class and `most` evenly
/// spaced ones: a stated sample, so that the answer depends on the dataset alone. Throws what the first
/// image throws when none can be read; invalid_option for an empty dataset.
SizeSurvey survey_sizes(const Dataset& dataset, int64_t threads, int64_t most = 1000);

/// The shape that all images are given when nobody asks for another: the size that they have; 224x224 where
/// larger ones are of mixed sizes, and the typical size where small ones are. Grey when all of them are.
ImageFormat default_format(const SizeSurvey& survey);

/// default_format of a dataset of images, looked at by one thread; of sequences their channels and the
/// longest of them, padded at the right. Throws as survey_sizes does.
ImageFormat format_of(const Dataset& dataset);

}  // namespace lockstep::data
