// Whole files: read with a bound, and written so that a reader sees the old or the new file and never a part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep {

/// The whole file. Throws not_found, io, or corrupt_data if it is larger than `most_bytes`.
std::string read_file(const std::filesystem::path& path, int64_t most_bytes = int64_t{1} << 40);

/// The first line of a small file of the kernel's, without its end; empty if it cannot be read.
std::string first_line_of(const std::filesystem::path& path);

/// `write` makes and syncs a file at the path that it is given, in the same folder. This file is then renamed
/// over `path`, or over the file that a link there leads to, and the folder is synced. If it throws, `path`
/// is unchanged and the other file is removed. A device or a pipe is written to directly.
void write_aside(const std::filesystem::path& path,
                 const std::function<void(const std::filesystem::path& neighbour)>& write);

/// The same with these bytes.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

/// Writes and syncs a new file in place (for files in a folder that is itself renamed afterwards). `write` is
/// given a sink to call with successive pieces.
using Sink = std::function<void(std::string_view)>;
void write_file_synced(const std::filesystem::path& path, const std::function<void(const Sink&)>& write);

/// Makes names created or renamed in `folder` survive a power cut.
void sync_folder(const std::filesystem::path& folder);

/// rename(2) with the error translated.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

/// mkdir -p with the error translated.
void make_folders(const std::filesystem::path& folder);

}  // namespace lockstep
