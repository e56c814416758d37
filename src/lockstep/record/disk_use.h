// How much disk space a run takes.
#pragma once

#include <cstdint>
#include <filesystem>

namespace lockstep::record {

/// Bytes of all files in a folder. Links are not followed, and a file with several names in it counts once.
/// What cannot be read counts as nothing.
int64_t disk_use(const std::filesystem::path& folder);

}  // namespace lockstep::record
