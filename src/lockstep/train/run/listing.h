// RUN/listing.jsonl: the files of a run's data, so that a resume that is refused can name those that changed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lockstep/train/planning/prepare.h"

namespace lockstep::train {

/// The files that the run trains on and is scored with: a line of JSON for each image, [part, class, file],
/// in order; where several samples or a sequence are in a file, for each file, [part, class, file, hash of
/// the samples and labels]. Nothing is written for more files than `most`.
void write_listing(const std::filesystem::path& path, const Prepared& prepared, int64_t most);

/// In which files the run's data differ now from a listing, with the first one that was added, removed and
/// changed; wherever the data lie. Empty: in none, or there is no listing.
std::string changed_files(const std::filesystem::path& listing, const Prepared& prepared);

}  // namespace lockstep::train
