// Where the program `lockstep` of this engine is.
#pragma once

#include <filesystem>

namespace lockstep::cli {

/// Beside the engine, or in bin of the installation whose lib/lockstep has the engine. Throws not_found.
std::filesystem::path lockstep_program();

}  // namespace lockstep::cli
