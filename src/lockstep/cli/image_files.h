// Images given file by file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data/datastore.h"

namespace lockstep::cli {

/// Image files in the given order. The label of an image is the class named like the folder that contains it,
/// or -1 when there is no such class.
data::Dataset image_files(std::vector<std::filesystem::path> paths, std::vector<std::string> classes);

}  // namespace lockstep::cli
