#include "lockstep/base/user_folders.h"

#include <cstdlib>
#include <utility>

namespace lockstep {

std::filesystem::path user_cache_folder() {
  for (const auto& [variable, below] : {std::pair{"XDG_CACHE_HOME", ""}, std::pair{"HOME", ".cache"}}) {
    const char* folder = std::getenv(variable);
    // By the specification a path that is not absolute counts as not set.
    if (folder != nullptr && *folder == '/') return std::filesystem::path(folder) / below;
  }
  return {};
}

}  // namespace lockstep
