// Records of one size in a file that processes share: made once, read and filled by any number of runs.
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

/// What a file of records is of. Of equal `identity` there is one file, which is made anew where anything
/// else is not equal.
struct RecordsKey {
  uint64_t identity = 0;
  uint64_t content = 0;  ///< of what the records were made from; changes when that does
  int64_t count = 0;
  int64_t record_bytes = 0;

  int64_t file_bytes() const;
  friend bool operator==(const RecordsKey&, const RecordsKey&) = default;
};

/// Records, each with its checksum (XXH3). The file may be read and filled by any number of processes at
/// once: a record is there when its checksum fits, so one that was cut short, damaged or half written is not
/// there. The file is mapped, so all who read it share its memory; records that somebody truncates meanwhile,
/// or a disk cannot read, are not there (MappedFile). While it is open the file is marked as in use
/// (mark_in_use). Any thread may call any const member.
class RecordFile {
 public:
  /// The file there, null when it is of another key.
  static std::shared_ptr<const RecordFile> find(const std::filesystem::path& path, const RecordsKey& key);
  /// The same, made (empty, its room reserved) if need be. Throws io when the folder cannot be written or the
  /// disk is too full.
  static std::shared_ptr<const RecordFile> find_or_make(const std::filesystem::path& path,
                                                        const RecordsKey& key);

  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  /// Whether the record is there, then in `destination`; else that holds anything.
  bool read(int64_t index, std::span<uint8_t> destination) const;
  /// Nothing happens where the file may only be read, and once a disk did not take a record. The disk's
  /// failure is not the reader's, who has the record.
  void write(int64_t index, std::span<const uint8_t> record) const;
  /// What the disk said when it did not take a record; empty: it took all.
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
  uint64_t seed_;                         ///< of the checksums
  int64_t record_bytes_;
  /// Records whose checksum this process has seen fit, or written: it is not computed again at each read.
  std::unique_ptr<std::atomic<bool>[]> checked_;
};

}  // namespace lockstep::data
