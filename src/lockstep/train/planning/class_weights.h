// The samples of each class, and the weights that make up for unequal numbers of them.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/datastore.h"

namespace lockstep::train {

/// Samples with each label; for sequences with a class for each time step, the labelled time steps.
std::vector<int64_t> count_classes(const data::Dataset& dataset);

/// all / (classes * count of the class), as in scikit-learn's compute_class_weight("balanced"); the classes
/// are those that have samples, and 0 for the others.
std::vector<double> balanced_weights(const std::vector<int64_t>& counts);

}  // namespace lockstep::train
