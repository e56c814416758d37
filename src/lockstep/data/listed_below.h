// Whether a folder that is to be made would lie among the images of a dataset.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::data {

/// Whether `folder`, which need not exist, lies below the folder `data` and open_source would list it there,
/// as images are listed. False if `data` is an archive or an address, or if its data lie in its own files. A
/// folder that cannot be read has no images here; opening it as data says so.
bool is_listed_below(const std::filesystem::path& folder, const std::string& data);

}  // namespace lockstep::data
