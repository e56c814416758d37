// Records of one size in a file that processes share: created once, read and filled by any number of runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "lockstep/base/descriptor.h"

namespace lockstep::data {

class MappedFile;

/// Identifies a file of records. Each `identity` has one file, which is created again if any other member
/// differs.
struct RecordsKey {
  uint64_t identity = 0;
  uint64_t content = 0;  ///< hash of what the records were made from
  int64_t count = 0;
  int64_t record_bytes = 0;

  int64_t file_bytes() const;
  friend bool operator==(const RecordsKey&, const RecordsKey&) = default;
};

/// Records with checksums (XXH3). Any number of processes may read and fill the file at the same time. A
/// record is present if its checksum matches, so a truncated, damaged or half-written record is absent. The
/// file is memory-mapped, so all readers share its memory; records that are truncated meanwhile, or that the
/// disk cannot read, are absent (MappedFile). While it is open, the file is marked as in use (mark_in_use).
/// Any thread may call any const member.
class RecordFile {
 public:
  /// Opens the existing file; null if it has another key.
  static std::shared_ptr<const RecordFile> find(const std::filesystem::path& path, const RecordsKey& key);
  /// The same, but creates the file if necessary (empty, with its space reserved). Throws io if the folder
  /// cannot be written or the disk is too full.
  static std::shared_ptr<const RecordFile> find_or_make(const std::filesystem::path& path,
                                                        const RecordsKey& key);

  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  /// Whether the record is present; if so, it is copied to `destination`, which is otherwise undefined.
  bool read(int64_t index, std::span<uint8_t> destination) const;
  /// Does nothing if the file is read-only, or after the disk failed to write a record. A disk failure is not
  /// thrown, because the reader has the record.
  void write(int64_t index, std::span<const uint8_t> record) const;
  /// The disk's error if it failed to write a record; empty: there was no failure.
  std::string failure() const;
  const std::filesystem::path& path() const { return path_; }
  int64_t record_bytes() const { return record_bytes_; }

 private:
  struct Opened;
  explicit RecordFile(Opened opened);
  int64_t place_of(int64_t index) const;
  uint64_t checksum(int64_t index, std::span<const uint8_t> record) const;

  std::filesystem::path path_;
  Descriptor descriptor_;
  std::unique_ptr<const MappedFile> mapped_;
  mutable std::atomic<bool> writable_;
  mutable std::atomic<int> failure_ = 0;  ///< errno
  uint64_t seed_;                         ///< seed of the checksums
  int64_t record_bytes_;
  /// Records whose checksum this process has verified or written: it is not computed again at each read.
  std::unique_ptr<std::atomic<bool>[]> checked_;
};

}  // namespace lockstep::data
