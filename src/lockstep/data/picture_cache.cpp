// The file: a header of one page, then for each picture its checksum (0: not there) and its pixels.
#include "lockstep/data/picture_cache.h"

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
#include "lockstep/data/internal/mapped_file.h"
#include "lockstep/device/jpeg_decoder.h"

namespace lockstep::data {
namespace {

constexpr int64_t kHeaderBytes = 4096;
constexpr std::array<char, 16> kMagic{"lockstep cache\n"};
// To be raised when decoding or resizing gives other levels than before.
constexpr uint64_t kVersion = 2;

struct Header {
  std::array<char, 16> magic = kMagic;
  uint64_t version = kVersion;
  uint64_t identity = 0;  // of listing and format
  uint64_t content = 0;   // Datastore::content_hash
  int64_t count = 0;
  int64_t picture_bytes = 0;
  friend bool operator==(const Header&, const Header&) = default;
};
static_assert(std::has_unique_object_representations_v<Header>);

int64_t record_bytes(int64_t picture_bytes) { return picture_bytes + static_cast<int64_t>(sizeof(uint64_t)); }

uint64_t hash_of_format(const PictureFormat& format, uint64_t seed) {
  const std::array<int64_t, 5> numbers{format.channels, format.height, format.width, static_cast<int64_t>(format.resize), static_cast<int64_t>(format.decode)};
  return hash_of(std::as_bytes(std::span(numbers)), format.jpeg_decoder == nullptr ? seed : hash_of(format.jpeg_decoder->fingerprint(), seed));
}

Header header_for(const Datastore& store, const PictureFormat& format) {
  return {.identity = hash_of_format(format, hash_of(store.identity())), .content = store.content_hash(), .count = store.size(), .picture_bytes = format.size().bytes()};
}

int64_t file_bytes(const Header& header) { return kHeaderBytes + header.count * record_bytes(header.picture_bytes); }

}  // namespace

struct PictureCache::File {
  std::filesystem::path path;
  int descriptor = -1;
  bool writable = false;
  Header header;

  // Nothing (descriptor -1) when there is no file of this header and full length.
  static File find(const std::filesystem::path& path, const Header& header) {
    File file{path, ::open(path.c_str(), O_RDWR | O_CLOEXEC), true, header};
    if (file.descriptor < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)) {
      file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      file.writable = false;
    }
    if (file.descriptor < 0) return file;
    struct stat status {};
    Header found;
    const bool fits = ::fstat(file.descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size == file_bytes(header) &&
                      ::pread(file.descriptor, &found, sizeof found, 0) == static_cast<ssize_t>(sizeof found) && found == header;
    if (!fits) ::close(std::exchange(file.descriptor, -1));
    return file;
  }

  // In a neighbour first, which then gets the name; where another process was quicker with the same pictures, its file is taken.
  static File make(const std::filesystem::path& path, const Header& header) {
    make_folders(path.parent_path());
    std::string neighbour = path.string() + ".new-XXXXXX";
    const int descriptor = ::mkostemp(neighbour.data(), O_CLOEXEC);
    if (descriptor < 0) throw errno_error(errno, "create", neighbour);
    ::fchmod(descriptor, 0644);
    File file{path, descriptor, true, header};
    try {
      file.reserve(neighbour);
      File other = find(path, header);
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

  // Room for all records now, so that writing one does not end in a full disk.
  void reserve(const std::string& neighbour) const {
    const int64_t bytes = file_bytes(header);
    if (::fallocate(descriptor, 0, 0, bytes) != 0) {
      if (errno != EOPNOTSUPP && errno != ENOSYS) throw errno_error(errno, "reserve " + as_bytes(bytes) + " for", neighbour);
      if (::ftruncate(descriptor, bytes) != 0) throw errno_error(errno, "reserve " + as_bytes(bytes) + " for", neighbour);
    }
    if (::pwrite(descriptor, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) throw errno_error(errno, "write", neighbour);
  }
};

PictureCache::PictureCache(File file)
    : path_(std::move(file.path)), descriptor_(file.descriptor), mapped_(std::make_unique<const MappedFile>(descriptor_.get(), file_bytes(file.header), path_)), writable_(file.writable),
      seed_(hash_of(std::as_bytes(std::span(&file.header, 1)))), picture_bytes_(file.header.picture_bytes), checked_(std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(file.header.count))) {}

PictureCache::~PictureCache() = default;

int64_t PictureCache::bytes_for(const Datastore& store, const PictureFormat& format) {
  return file_bytes({.count = store.size(), .picture_bytes = format.size().bytes()});
}

PictureCache::Opened PictureCache::open(const std::filesystem::path& folder, const Datastore& store, const PictureFormat& format, CacheUse use, int64_t most_bytes) {
  if (store.kind() != SampleKind::picture) return {nullptr, "sequences are not kept in files"};
  if (store.in_memory()) return {nullptr, "the pictures lie decoded in memory"};
  const Header header = header_for(store, format);
  if (store.identity().empty() || header.content == 0) return {nullptr, "nobody can tell whether these pictures changed"};
  const std::filesystem::path path = folder / (as_hex(header.identity) + ".pictures");
  File file = File::find(path, header);
  if (file.descriptor < 0) {
    if (file_bytes(header) > most_bytes) return {nullptr, "it would take " + as_bytes(file_bytes(header)) + ", more than the " + as_bytes(most_bytes) + " allowed"};
    if (use == CacheUse::read) return {nullptr, std::filesystem::exists(path) ? "the one there is of other files" : "there is none", true};
    file = File::make(path, header);
  }
  return {std::shared_ptr<const PictureCache>(new PictureCache(std::move(file))), ""};
}

uint64_t PictureCache::checksum(int64_t index, std::span<const uint8_t> picture) const {
  const uint64_t hash = hash_of(std::as_bytes(picture), seed_ + static_cast<uint64_t>(index));
  return hash == 0 ? 1 : hash;
}

int64_t PictureCache::place_of(int64_t index) const { return kHeaderBytes + index * record_bytes(picture_bytes_); }

bool PictureCache::read(int64_t index, std::span<uint8_t> destination) const {
  constexpr int64_t kPixels = sizeof(uint64_t);  // where they begin in a record
  const int64_t place = place_of(index);
  uint64_t stored = 0;
  // Whatever keeps a record from being read, the picture can be decoded.
  if (!mapped_->copy(place, {reinterpret_cast<uint8_t*>(&stored), sizeof stored}) || stored == 0) return false;
  std::atomic<bool>& checked = checked_[static_cast<size_t>(index)];
  if (checked.load(std::memory_order_relaxed)) return mapped_->stream(place + kPixels, destination);
  if (!mapped_->copy(place + kPixels, destination) || stored != checksum(index, destination)) return false;
  checked.store(true, std::memory_order_relaxed);
  return true;
}

void PictureCache::write(int64_t index, std::span<const uint8_t> picture) const {
  if (!writable_) return;
  uint64_t stored = checksum(index, picture);
  const std::array<iovec, 2> parts{{{&stored, sizeof stored}, {const_cast<uint8_t*>(picture.data()), picture.size()}}};
  const int64_t bytes = record_bytes(picture_bytes_);
  ssize_t written = 0;
  do {
    written = ::pwritev(descriptor_.get(), parts.data(), 2, place_of(index));
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(bytes)) throw errno_error(written < 0 ? errno : ENOSPC, "write", path_.string());
  mapped_->enter(place_of(index), bytes);
  checked_[static_cast<size_t>(index)].store(true, std::memory_order_relaxed);
}

}  // namespace lockstep::data
