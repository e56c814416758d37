// Images named one by one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data/datastore.h"

namespace lockstep::cli {

/// Image files in the given order. An image's label is the class by the name of the folder that holds it,
/// -1 when there is no such class.
data::Dataset image_files(std::vector<std::filesystem::path> paths, std::vector<std::string> classes);

}  // namespace lockstep::cli
