#include "lockstep/base/user_folders.h"

#include <cstdlib>
#include <utility>

namespace lockstep {

namespace {

std::filesystem::path folder_of(const char* variable, const char* below_home) {
  for (const auto& [name, below] : {std::pair{variable, ""}, std::pair{"HOME", below_home}}) {
    const char* folder = std::getenv(name);
    // By the specification a path that is not absolute counts as not set.
    if (folder != nullptr && *folder == '/') return std::filesystem::path(folder) / below;
  }
  return {};
}

}  // namespace

std::filesystem::path user_cache_folder() { return folder_of("XDG_CACHE_HOME", ".cache"); }

std::filesystem::path user_config_folder() { return folder_of("XDG_CONFIG_HOME", ".config"); }

std::filesystem::path user_state_folder() { return folder_of("XDG_STATE_HOME", ".local/state"); }

std::filesystem::path lockstep_cache_folder() {
  const char* own = std::getenv("LOCKSTEP_CACHE");
  if (own != nullptr && *own == '/') return own;
  const std::filesystem::path caches = user_cache_folder();
  return caches.empty() ? caches : caches / "lockstep";
}

}  // namespace lockstep
