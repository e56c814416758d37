// Files that belong to the program and lie beside it.
#pragma once

#include <filesystem>
#include <optional>

namespace lockstep {

/// The file of this name beside the program, or in the folder lib/lockstep of its installation.
std::optional<std::filesystem::path> find_companion(const char* file_name);

/// A library that is opened at run time: such a file, or else the name itself, for the loader to look.
std::filesystem::path find_plug_in(const char* file_name);

}  // namespace lockstep
