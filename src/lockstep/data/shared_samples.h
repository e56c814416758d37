// Whether two datasets have the same files.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/data/datastore.h"

namespace lockstep::data {

/// How many samples are in both datasets, by the places of their files (Datastore::source). Links to folders
/// are followed. A copy of a file is another one.
int64_t shared_samples(const Dataset& one, const Dataset& other);

/// Whether both datasets have as many samples with the same names, in the same order: the names of the files
/// below the innermost folder that contains all samples of a dataset, so that a folder and an archive of it
/// have the same. Their contents may differ.
bool have_same_names(const Dataset& one, const Dataset& other);

/// Whether a sample's file is `place` or lies below it.
bool has_samples_at(const Dataset& dataset, const std::string& place);

}  // namespace lockstep::data
