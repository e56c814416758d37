#include "lockstep/data/internal/bytes.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

// Deflate makes at most 1,032 bytes of one.
constexpr int64_t kMostInflation = 1040;
constexpr unsigned kBufferBytes = 256 << 10;

gzFile as_gzip(void* stream) { return static_cast<gzFile>(stream); }

}  // namespace

ByteFile::ByteFile(const std::filesystem::path& path) : path_(path.string()) {
  // Without waiting, for the other end of a pipe that lies there may never come.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) throw errno_error(errno, "open", path_);
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) stream_ = gzdopen(descriptor, "rb");
  if (stream_ == nullptr) {
    ::close(descriptor);
    throw Error(ErrorCode::io, "cannot read \"" + path_ + "\": not a file");
  }
  gzbuffer(as_gzip(stream_), kBufferBytes);
  most_bytes_ = gzdirect(as_gzip(stream_)) != 0 ? status.st_size : status.st_size * kMostInflation;
}

ByteFile::~ByteFile() { gzclose(as_gzip(stream_)); }

size_t ByteFile::read(uint8_t* destination, size_t count) {
  constexpr size_t kMostAtOnce = size_t{1} << 30;
  size_t have = 0;
  while (have < count) {
    const int got = gzread(as_gzip(stream_), destination + have, static_cast<unsigned>(std::min(count - have, kMostAtOnce)));
    if (got < 0) {
      int code = 0;
      const std::string why = gzerror(as_gzip(stream_), &code);
      if (code == Z_ERRNO) throw errno_error(errno, "read", path_);
      throw Error(ErrorCode::corrupt_data,
                  "cannot unpack \"" + path_ + "\": the gzip stream is damaged after " + std::to_string(have) + " bytes",
                  "get the file again");
    }
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  return have;
}

}  // namespace lockstep::data
