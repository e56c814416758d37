// Libraries that a program opens when it needs them.
#pragma once

#include <filesystem>

namespace lockstep {

/// Where the library of this name lies: beside the program, or in an installation's library folder; else the
/// name itself, for the loader to look.
std::filesystem::path find_plug_in(const char* file_name);

}  // namespace lockstep
