// The user's folders for files that programs keep for themselves.
#pragma once

#include <filesystem>

namespace lockstep {

/// $XDG_CACHE_HOME, else $HOME/.cache (XDG Base Directory Specification 0.8): for files that may be removed
/// at any time. Empty if neither is an absolute path.
std::filesystem::path user_cache_folder();

/// $XDG_CONFIG_HOME, else $HOME/.config: for what the user has chosen. Empty if neither is an absolute path.
std::filesystem::path user_config_folder();

/// $XDG_STATE_HOME, else $HOME/.local/state: for what programs remember. Empty if neither is an absolute
/// path.
std::filesystem::path user_state_folder();

/// The folder of Lockstep's own caches: $LOCKSTEP_CACHE, else "lockstep" in the folder of the user's caches.
/// Empty if there is neither.
std::filesystem::path lockstep_cache_folder();

/// The folder for decoded samples beside data in a folder. Readers of data ignore names that begin with a
/// dot.
inline constexpr const char* kDecodedFolder = ".lockstep-cache";

}  // namespace lockstep
