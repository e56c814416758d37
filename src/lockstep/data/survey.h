// What the images of a dataset are like: their sizes, from their headers only, and whether they are drawings
// or have colours.
#pragma once

#include <cstdint>

#include "lockstep/data/datastore.h"
#include "lockstep/data/transform.h"

namespace lockstep::data {

/// The default input size for images of different sizes, in pixels per side (--image-size says it to users):
/// the typical size of images up to kSmallSide, else the usual input size of networks for photographs.
inline constexpr int64_t kSmallSide = 64;
inline constexpr int64_t kPhotographSide = 224;

struct SizeSurvey {
  ImageSize typical;        ///< median height and median width, which is the size of the majority if there
                            ///< is one; 3 channels if any image has 3
  bool one_size = true;     ///< whether all examined images have it
  bool any_colour = false;  ///< whether an examined image has three channels
  bool looked_at_all = true;
  int64_t looked_at = 0;
  int64_t unreadable = 0;  ///< number of examined images that cannot be read; ignored otherwise
};

/// Examines every image if there are at most `most`; otherwise the first one of each class and one of each of
/// `most` equal parts, at a place that depends only on the number of samples. If none can be read, throws
/// what the first image throws; invalid_option for an empty dataset.
SizeSurvey survey_sizes(const Dataset& dataset, int64_t threads, int64_t most = 1000);

/// Number of images whose pixels are_drawings and have_colours look at: one of each of so many equal parts.
inline constexpr int64_t kPixelsLookedAt = 32;

/// Whether most of these images are drawings: nearly all their pixels are as dark as ink or as light as
/// paper. Those that cannot be read are ignored, but an error of a server is thrown. The result depends only
/// on the dataset.
bool are_drawings(const Dataset& dataset);

/// Whether there are colours in these images: letters in black on white have none, also where a file has
/// three channels. Reads as are_drawings does, and one image only where that has colours. True if none can be
/// read.
bool have_colours(const Dataset& dataset);

/// The default shape of all images: their size, if they have the same; else the default input size for images
/// of different sizes. Grey if all of them are grey.
ImageFormat default_format(const SizeSurvey& survey);

/// default_format of a dataset of images, examined by one thread; for sequences their channels and the
/// longest length, padded on the right. Throws as survey_sizes does.
ImageFormat format_of(const Dataset& dataset);

}  // namespace lockstep::data
