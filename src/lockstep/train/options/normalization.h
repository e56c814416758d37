// --normalize: what is subtracted from pixels / 255, and the divisor.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "lockstep/data/image_set.h"

namespace lockstep::train {

/// Per channel; empty: no normalisation.
struct Normalization {
  std::vector<double> mean;
  std::vector<double> deviation;
};

/// "none", "imagenet", or MEAN,DEVIATION (numbers or fractions) once or for each channel. Throws
/// invalid_option for anything else, also for "mean-std" (see measure_normalization).
Normalization parse_normalization(const std::string& text, int64_t channels);

/// Mean and standard deviation of all images, from exact integer sums: the same for any number of threads. A
/// channel of one constant value has deviation 1. Throws cancelled at a stop.
Normalization measure_normalization(const data::ImageSet& images, int64_t threads, std::stop_token stop = {});

/// Of the values of all sequences, per channel.
Normalization measure_sequences(const data::ImageSet& sequences, std::stop_token stop);

}  // namespace lockstep::train
