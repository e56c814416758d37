// Whether the options fit the data, and whether the data still have all classes.
#pragma once

#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/train/options/options.h"

namespace lockstep::train {

/// Throws invalid_option for an option of the other kind of data that differs from its default: it would
/// change nothing.
void check_kind_of_data(const Options& options, data::SampleKind kind);

/// Throws corrupt_data, with the class, the number of its images and why the first one was left out, for a
/// class of which `left` has no sample and `whole` has some.
///   bad  what was left out of `whole`
void check_classes_left(const data::Dataset& whole, const data::Dataset& left,
                        const std::vector<data::BadSample>& bad);

}  // namespace lockstep::train
