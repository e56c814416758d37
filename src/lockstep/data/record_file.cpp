// The file: a header of one page, then for each record its checksum (0: not present) and its bytes.
#include "lockstep/data/record_file.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/data/cache_folder.h"
#include "lockstep/data/internal/mapped_file.h"

namespace lockstep::data {
namespace {

constexpr int64_t kHeaderBytes = 4096;
constexpr std::array<char, 16> kMagic{"lockstep cache\n"};
constexpr uint64_t kVersion = 3;  // of the file format

int64_t with_checksum(int64_t record_bytes) { return record_bytes + static_cast<int64_t>(sizeof(uint64_t)); }

}  // namespace

/// The file's header.
struct RecordFileHeader {
  std::array<char, 16> magic = kMagic;
  uint64_t version = kVersion;
  RecordsKey key;
  friend bool operator==(const RecordFileHeader&, const RecordFileHeader&) = default;
};
static_assert(std::has_unique_object_representations_v<RecordFileHeader>);

int64_t RecordsKey::file_bytes() const { return kHeaderBytes + count * with_checksum(record_bytes); }

struct RecordFile::Opened {
  std::filesystem::path path;
  int descriptor = -1;
  bool writable = false;
  RecordFileHeader header;

  // None (descriptor -1) if no file has this header and the full length.
  static Opened find(const std::filesystem::path& path, const RecordFileHeader& header) {
    // If the path is a pipe that may only be read, opening it would wait for a writer.
    Opened file{path, ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK), true, header};
    if (file.descriptor < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)) {
      file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
      file.writable = false;
    }
    if (file.descriptor < 0) return file;
    struct stat status {};
    RecordFileHeader found;
    const bool fits =
        ::fstat(file.descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size == header.key.file_bytes() &&
        ::pread(file.descriptor, &found, sizeof found, 0) == static_cast<ssize_t>(sizeof found) &&
        found == header;
    if (!fits) {
      ::close(std::exchange(file.descriptor, -1));
    } else {
      mark_in_use(file.descriptor);
    }
    return file;
  }

  // Written under a temporary name first, then renamed. If another process created a file with the same key
  // in the meantime, that file is used.
  static Opened make(const std::filesystem::path& path, const RecordFileHeader& header) {
    make_folders(path.parent_path());
    std::string neighbour = path.string() + ".new-XXXXXX";
    const int descriptor = ::mkostemp(neighbour.data(), O_CLOEXEC);
    if (descriptor < 0) throw errno_error(errno, "create", neighbour);
    mark_in_use(descriptor);
    ::fchmod(descriptor, 0644);
    Opened file{path, descriptor, true, header};
    try {
      file.reserve(neighbour);
      Opened other = find(path, header);
      if (other.descriptor >= 0) {
        ::close(std::exchange(file.descriptor, -1));
        ::unlink(neighbour.c_str());
        return other;
      }
      rename_path(neighbour, path);
    } catch (...) {
      ::close(file.descriptor);
      ::unlink(neighbour.c_str());
      throw;
    }
    return file;
  }

  // Reserves space for all records now, so that writing one cannot fail on a full disk.
  void reserve(const std::string& neighbour) const {
    const int64_t bytes = header.key.file_bytes();
    if (::fallocate(descriptor, 0, 0, bytes) != 0) {
      if (errno != EOPNOTSUPP && errno != ENOSYS)
        throw errno_error(errno, "reserve " + as_bytes(bytes) + " for", neighbour);
      if (::ftruncate(descriptor, bytes) != 0)
        throw errno_error(errno, "reserve " + as_bytes(bytes) + " for", neighbour);
    }
    if (::pwrite(descriptor, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
      throw errno_error(errno, "write", neighbour);
  }
};

RecordFile::RecordFile(Opened opened)
    : path_(std::move(opened.path)),
      descriptor_(opened.descriptor),
      mapped_(std::make_unique<const MappedFile>(descriptor_.get(), opened.header.key.file_bytes(), path_)),
      writable_(opened.writable),
      seed_(hash_of(std::as_bytes(std::span(&opened.header, 1)))),
      record_bytes_(opened.header.key.record_bytes),
      checked_(std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(opened.header.key.count))) {}

RecordFile::~RecordFile() = default;

std::shared_ptr<const RecordFile> RecordFile::find(const std::filesystem::path& path, const RecordsKey& key) {
  Opened file = Opened::find(path, {.key = key});
  return file.descriptor < 0 ? nullptr : std::shared_ptr<const RecordFile>(new RecordFile(std::move(file)));
}

std::shared_ptr<const RecordFile> RecordFile::find_or_make(const std::filesystem::path& path,
                                                           const RecordsKey& key) {
  if (auto file = find(path, key)) return file;
  return std::shared_ptr<const RecordFile>(new RecordFile(Opened::make(path, {.key = key})));
}

uint64_t RecordFile::checksum(int64_t index, std::span<const uint8_t> record) const {
  const uint64_t hash = hash_of(std::as_bytes(record), seed_ + static_cast<uint64_t>(index));
  return hash == 0 ? 1 : hash;
}

std::string RecordFile::failure() const {
  return failure_ == 0 ? std::string() : errno_error(failure_, "write", path_.string()).message();
}

int64_t RecordFile::place_of(int64_t index) const {
  return kHeaderBytes + index * with_checksum(record_bytes_);
}

bool RecordFile::read(int64_t index, std::span<uint8_t> destination) const {
  constexpr int64_t kContents = sizeof(uint64_t);  // offset of the content in a record
  const int64_t place = place_of(index);
  uint64_t stored = 0;
  // Whatever prevents reading a record, its maker can create it again.
  if (!mapped_->copy(place, {reinterpret_cast<uint8_t*>(&stored), sizeof stored}) || stored == 0)
    return false;
  std::atomic<bool>& checked = checked_[static_cast<size_t>(index)];
  if (checked.load(std::memory_order_relaxed)) return mapped_->stream(place + kContents, destination);
  if (!mapped_->copy(place + kContents, destination) || stored != checksum(index, destination)) return false;
  checked.store(true, std::memory_order_relaxed);
  return true;
}

void RecordFile::write(int64_t index, std::span<const uint8_t> record) const {
  if (!writable_.load(std::memory_order_relaxed)) return;
  uint64_t stored = checksum(index, record);
  const std::array<iovec, 2> parts{
      {{&stored, sizeof stored}, {const_cast<uint8_t*>(record.data()), record.size()}}};
  const int64_t bytes = with_checksum(record_bytes_);
  ssize_t written = 0;
  do {
    written = ::pwritev(descriptor_.get(), parts.data(), 2, place_of(index));
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(bytes)) {
    failure_ = written < 0 ? errno : ENOSPC;
    writable_ = false;
    return;
  }
  mapped_->enter(place_of(index), bytes);
  checked_[static_cast<size_t>(index)].store(true, std::memory_order_relaxed);
}

}  // namespace lockstep::data
