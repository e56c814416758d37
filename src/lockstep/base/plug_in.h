// Files of the program that are installed beside it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep {

/// The file of this name beside the program, or in the folder lib/lockstep of its installation.
std::optional<std::filesystem::path> find_companion(const char* file_name);

/// A library that is opened at run time: such a file, or else the name itself, which the loader searches.
std::filesystem::path find_plug_in(const char* file_name);

/// The kind of package that this program is from: "wheel", "tarball" or "deb". Empty for a program that was
/// built here.
std::string package_kind();

}  // namespace lockstep
