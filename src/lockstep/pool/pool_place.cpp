#include "lockstep/pool/internal/pool_place.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/describe.h"
#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::pool {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostPlaceBytes = 1 << 20;
fs::path place_file(const fs::path& folder) { return folder / "place.json"; }

}  // namespace

void write_pool_place(const fs::path& folder, const PoolPlace& place) {
  make_folders(folder);
  ::chmod(folder.c_str(), 0700);
  const fs::path file = place_file(folder), hidden = folder / "place.new";
  OpenFile opened(hidden, O_WRONLY | O_CREAT | O_EXCL, file);
  ::fchmod(opened.get(), 0600);
  opened.write(to_json(place).dump());
  opened.sync();
  opened.close();
  fs::rename(hidden, file);
}

void remove_pool_place(const fs::path& folder) {
  std::error_code none;
  fs::remove(place_file(folder), none);
}

PoolPlace pool_place_in(const std::string& text) {
  PoolPlace place;
  read_json(parse_json(text), place, "the place of a pool");
  return place;
}

PoolPlace read_pool_place(const fs::path& folder) {
  return pool_place_in(read_file(place_file(folder), kMostPlaceBytes));
}

PoolPlace pool_place_on(int descriptor) {
  std::string text;
  std::array<char, 4096> piece{};
  while (true) {
    const ssize_t got = ::read(descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw errno_error(errno, "read", "the place of a pool");
    if (got == 0) return pool_place_in(text);
    text.append(piece.data(), static_cast<size_t>(got));
  }
}

}  // namespace lockstep::pool
