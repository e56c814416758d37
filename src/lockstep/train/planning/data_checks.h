// Whether the options suit the data, and whether the data still have all classes.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/data/image_set.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/planning/image_sets.h"
#include "lockstep/train/planning/open_data.h"

namespace lockstep::train {

/// Throws invalid_option for an option of the other kind of data that differs from its default: it would have
/// no effect.
void check_kind_of_data(const Options& options, data::SampleKind kind);

/// Throws invalid_option for a sample or time step of the sets whose label is neither the place of a class of
/// the training data nor -1. Reads each label once.
void check_labels(const Datasets& sets);

/// Decodes all images once, with `threads` threads, removes those that cannot be read from the datasets, and
/// returns these. Throws corrupt_data for a class of which no image can be read, with the number of its
/// images and the reason for the first one.
std::vector<data::BadSample> leave_out_bad_samples(Datasets& sets, const DataPlan& data,
                                                   const ImageCaches& caches, int64_t threads);

}  // namespace lockstep::train
