// Files in folders that other people and programs write to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep {

/// Throws corrupt_data for anything that is there and no file, such as a pipe or a link to a device.
void check_is_regular_file(const std::filesystem::path& path);

/// The whole file, as read_file() gives it. Throws corrupt_data also for anything else that has its name,
/// such as a pipe or a link to a device, which may never end.
std::string read_regular_file(const std::filesystem::path& path, int64_t most_bytes);

}  // namespace lockstep
