// Whether the data of a training is on this machine, for commands that only queue it.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

/// Throws what train would if nothing is at this path of this machine. Of a path in an archive, only the
/// archive is looked for. An empty path and an address, such as s3://bucket/photos, are left to train.
void check_data_is_there(const std::string& path);

/// The same for all data of a training on this machine. words: those after "train". Words that train refuses
/// are left to train, and so is a training that may become a job of another machine (--execution parallel).
void check_data_of_training(const std::vector<std::string>& words);

}  // namespace lockstep::cli
