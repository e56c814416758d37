// Folders that commands which were killed have left among the jobs: of jobs that were half made or half
// deleted.
#pragma once

#include <filesystem>
#include <string_view>

namespace lockstep::jobs {

/// A job that is being made has this and 16 hexadecimal digits as its name.
inline constexpr std::string_view kNewFolder = ".new-";

/// Writes down that this process works on what is in this folder.
void sign_folder(const std::filesystem::path& folder);
/// What it made is complete.
void remove_sign(const std::filesystem::path& folder);

/// Gives the folder of a job another name, under which it is no job, and returns it. Others leave it alone
/// while this process is there. Throws io.
std::filesystem::path take_out(const std::filesystem::path& job);
/// Removes what was taken out. Throws io if it is still there after a few tries.
void remove_taken_out(const std::filesystem::path& folder);

/// Removes this one of the folder of jobs if it is what a process that is known to be gone was making or
/// deleting. It may be anything of others, too. Ignores what cannot be removed.
void remove_if_left(const std::filesystem::path& folder);

}  // namespace lockstep::jobs
