// Opens the samples of a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/data/image_set.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/options/training_request.h"

namespace lockstep::train {

/// The samples of a run before they are decoded.
struct Datasets {
  data::Dataset train;
  data::Dataset validation;  ///< may be empty
  data::Dataset test;        ///< may be empty
  data::Dataset whole;       ///< the images of which train and validation are parts; empty if they are not
};

struct OpenedData {
  Datasets sets;
  std::string kind;  ///< of the first path that was opened, in words; empty: the caller gave all samples
  std::vector<std::string> warnings;       ///< of the same path; of samples that are also for judging
  std::string validation_file, test_file;  ///< data::Source::file; mostly empty
  std::vector<data::BadSample> skipped;
};

/// The data that the request contains or that its folder and the options name. Of a stream, `train` is its
/// outline (MiniBatchStream). Throws what opening throws; invalid_option where no training data or only
/// an empty dataset are given, and for training data with fewer than two classes.
///   most_memory  for compressed archives, in bytes; small values are raised, because an archive's list of
///                files is always in memory
///   earlier      as for prepare; a run that goes on may have taken for classes what is refused today
OpenedData open_data(const TrainingRequest& request, const Options& options, int64_t most_memory,
                     const Plan* earlier);

}  // namespace lockstep::train
