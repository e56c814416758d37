// Files of the program that are installed beside it.
#pragma once

#include <filesystem>
#include <optional>

namespace lockstep {

/// The file of this name beside the program, or in the folder lib/lockstep of its installation.
std::optional<std::filesystem::path> find_companion(const char* file_name);

/// A library that is opened at run time: such a file, or else the name itself, which the loader searches.
std::filesystem::path find_plug_in(const char* file_name);

}  // namespace lockstep
