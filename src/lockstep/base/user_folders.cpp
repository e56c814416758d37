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

std::filesystem::path lockstep_cache_folder() {
  const char* own = std::getenv("LOCKSTEP_CACHE");
  if (own != nullptr && *own == '/') return own;
  const std::filesystem::path caches = user_cache_folder();
  return caches.empty() ? caches : caches / "lockstep";
}

}  // namespace lockstep
