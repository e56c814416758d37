// Folders that commands which were killed have left among the jobs: of jobs that were half made or half
// deleted.
#pragma once

#include <filesystem>
#include <string_view>

namespace lockstep::jobs {

/// A job that is being made has this in front of its name; a job that is being deleted, the other one.
inline constexpr std::string_view kNewFolder = ".new-", kGoneFolder = ".gone-";

/// Writes down that this process makes what is in this new folder.
void sign_new_folder(const std::filesystem::path& folder);
/// What it made is complete.
void remove_sign(const std::filesystem::path& folder);

/// Goes on with the deletion of jobs, and removes jobs whose makers are known to be gone. Ignores what cannot
/// be removed.
void remove_left_folders(const std::filesystem::path& root);

}  // namespace lockstep::jobs
