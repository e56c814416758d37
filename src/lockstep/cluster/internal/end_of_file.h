#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep::cluster {

/// The last bytes of a file, at most so many; empty if there is none. Throws io.
std::string end_of_file(const std::filesystem::path& path, int64_t most_bytes);

}  // namespace lockstep::cluster
