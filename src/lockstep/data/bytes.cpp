#include "lockstep/data/internal/bytes.h"

#include <algorithm>
#include <array>
#include <limits>
#include <new>

#include <zlib.h>

#include "lockstep/base/error.h"
#include "lockstep/data/internal/deflate.h"
#include "lockstep/data/internal/kinds.h"

namespace lockstep::data {
namespace {

constexpr std::string_view kGzipMark = "\x1f\x8b";
constexpr int kGzipWindow = 15 + 16;

// zlib counts in 32 bits.
uInt at_once(size_t count) {
  return static_cast<uInt>(std::min<size_t>(count, std::numeric_limits<uInt>::max()));
}

}  // namespace

// A gzip file in memory: one or more members, and possibly other bytes after the last one, which gzip allows.
struct ByteFile::Gzip {
  explicit Gzip(std::string packed) : bytes(std::move(packed)), rest(bytes) {
    if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() { inflateEnd(&stream); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  /// Unpacks into `destination` until some output was made, or until it is clear that none can be. Returns
  /// zlib's status, and the number of bytes in `made`.
  int next(uint8_t* destination, size_t count, size_t& made) {
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(rest.data()));  // zlib only reads it
    stream.avail_in = at_once(rest.size());
    stream.next_out = destination;
    stream.avail_out = at_once(count);
    const int status = inflate(&stream, Z_NO_FLUSH);
    made = static_cast<size_t>(stream.next_out - destination);
    rest.remove_prefix(static_cast<size_t>(reinterpret_cast<const char*>(stream.next_in) - rest.data()));
    if (status == Z_STREAM_END) {
      if (!rest.starts_with(kGzipMark)) rest = {};
      inflateReset(&stream);
    }
    return status;
  }

  const std::string bytes;
  std::string_view rest;
  z_stream stream{};
};

ByteFile::ByteFile(const Files& files, std::string path)
    : files_(files), path_(std::move(path)), name_(files.shown(path_)), bytes_(files.bytes_of(path_)) {
  std::array<char, kGzipMark.size()> first{};
  const size_t have = files_.store()->read_at({path_, bytes_}, 0, first);
  if (std::string_view(first.data(), have) != kGzipMark) return;
  check_fits_memory(name_, bytes_);
  gzip_ = std::make_unique<Gzip>(files_.store()->read({path_, bytes_}, bytes_));
}

ByteFile::~ByteFile() = default;

int64_t ByteFile::most_bytes() const { return gzip_ == nullptr ? bytes_ : bytes_ * kMostInflation; }

size_t ByteFile::read(uint8_t* destination, size_t count) {
  if (gzip_ == nullptr) {
    const size_t have =
        files_.store()->read_at({path_, bytes_}, offset_, {reinterpret_cast<char*>(destination), count});
    offset_ += static_cast<int64_t>(have);
    return have;
  }
  size_t have = 0;
  while (have < count && !gzip_->rest.empty()) {
    size_t made = 0;
    const int status = gzip_->next(destination + have, count - have, made);
    have += made;
    if (status == Z_OK || status == Z_STREAM_END) continue;
    if (status == Z_BUF_ERROR) break;
    throw Error(ErrorCode::corrupt_data,
                "cannot unpack \"" + name_ + "\": the gzip stream is damaged after " + std::to_string(have) +
                    " bytes",
                "download or create the file again");
  }
  return have;
}

}  // namespace lockstep::data
