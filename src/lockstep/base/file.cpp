#include "lockstep/base/file.h"

#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

std::string read_file(const std::filesystem::path& path, int64_t most_bytes) {
  OpenFile file(path, O_RDONLY);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw errno_error(errno, "read", path.string());
  if (S_ISDIR(status.st_mode)) throw errno_error(EISDIR, "read", path.string());
  if (status.st_size > most_bytes) {
    throw Error(ErrorCode::corrupt_data, "\"" + path.string() + "\" has " + as_bytes(status.st_size) +
                                             ", more than the " + as_bytes(most_bytes) +
                                             " allowed for such a file");
  }
  // Files without a size (pipes, /proc) are read in pieces up to the bound.
  std::string bytes(static_cast<size_t>(status.st_size > 0 ? status.st_size : 4096), '\0');
  size_t have = 0;
  while (true) {
    if (have == bytes.size()) {
      if (status.st_size > 0) break;
      if (static_cast<int64_t>(have) >= most_bytes)
        throw Error(ErrorCode::corrupt_data,
                    "\"" + path.string() + "\" is larger than " + as_bytes(most_bytes));
      bytes.resize(bytes.size() * 2);
    }
    const ssize_t got = ::read(file.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw errno_error(errno, "read", path.string());
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

void write_file_synced(const std::filesystem::path& path, const std::function<void(const Sink&)>& write) {
  OpenFile file(path, O_WRONLY | O_CREAT | O_TRUNC);
  write([&](std::string_view bytes) { file.write(bytes); });
  file.sync();
  file.close();
}

namespace {

std::filesystem::path behind_links(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  std::error_code code;
  for (int links = 0;
       links < kMostLinks && std::filesystem::is_symlink(std::filesystem::symlink_status(path, code));
       ++links) {
    path = path.parent_path() / std::filesystem::read_symlink(path, code);
  }
  return path;
}

}  // namespace

std::string first_line_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void write_aside(const std::filesystem::path& asked,
                 const std::function<void(const std::filesystem::path& neighbour)>& write) {
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(asked, code);
  if (std::filesystem::is_directory(status)) throw errno_error(EISDIR, "write", asked.string());
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) return write(asked);
  const std::filesystem::path path = behind_links(asked);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  // Otherwise the error would name the neighbour. With a slash at its end the name cannot be that of a file.
  const bool is_usable = ::faccessat(AT_FDCWD, (folder / "").c_str(), W_OK | X_OK, AT_EACCESS) == 0;
  if (!is_usable && (errno == EACCES || errno == ENOENT || errno == ENOTDIR || errno == EROFS))
    throw errno_error(errno, "create", path.string());
  std::filesystem::path neighbour = path;
  neighbour += ".part";
  try {
    write(neighbour);
    rename_path(neighbour, path);
  } catch (...) {
    ::unlink(neighbour.c_str());
    throw;
  }
  sync_folder(folder);
}

void write_file_atomic(const std::filesystem::path& path, std::string_view bytes) {
  write_aside(path, [&](const std::filesystem::path& neighbour) {
    write_file_synced(neighbour, [&](const Sink& sink) { sink(bytes); });
  });
}

void sync_folder(const std::filesystem::path& folder) {
  OpenFile directory(folder, O_RDONLY | O_DIRECTORY);
  // Some file systems refuse to sync a folder; the rename is still atomic there.
  if (::fsync(directory.get()) != 0 && errno != EINVAL) throw errno_error(errno, "sync", folder.string());
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw errno_error(errno, "rename", from.string());
}

void make_folders(const std::filesystem::path& folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) throw errno_error(code.value(), "create folder", folder.string());
}

}  // namespace lockstep
