// The index of a tar archive: where its files are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/descriptor.h"
#include "lockstep/io/byte_store.h"

namespace lockstep::io {

/// An archive's file. Throws not_found, io.
class OpenArchive {
 public:
  explicit OpenArchive(const std::string& path);

  const OpenFile& file() const { return file_; }
  int64_t bytes() const { return bytes_; }
  int64_t changed() const { return changed_; }  ///< time_of_change
  const std::string& path() const { return name_; }

 private:
  const std::string name_;
  const OpenFile file_;
  int64_t bytes_ = 0;
  int64_t changed_ = 0;  // ns since 1970
};

struct ArchiveItem {
  std::string path;
  int64_t size = 0;
  int64_t offset = 0;  ///< in the archive's file, or the index into ArchiveIndex::contents
  Listed::Kind kind = Listed::Kind::file;
  std::string link;  ///< the target of a hard link that is not resolved yet
};

struct ArchiveIndex {
  std::vector<ArchiveItem> items;     ///< sorted by path; paths are unique
  std::vector<std::string> contents;  ///< of the files of a compressed archive

  /// The first item whose path is not before `path`.
  std::vector<ArchiveItem>::const_iterator from(std::string_view path) const;
};

/// Reads the archive once with libarchive. A compressed archive is unpacked into memory. Throws corrupt_data
/// for a damaged or incomplete archive, out_of_memory if it needs more than options.most_memory.
ArchiveIndex index_archive(const OpenArchive& archive, const StoreOptions& options);

/// A name as a path below an archive's root; `holder` is the archive. Throws corrupt_data for a name that
/// leads upwards or is too long. The depth is limited because readers keep one folder per part.
std::string path_in_archive(std::string_view name, const std::string& holder);

}  // namespace lockstep::io
