#include "lockstep/cluster/internal/end_of_file.h"

#include <algorithm>
#include <fcntl.h>

#include "lockstep/base/descriptor.h"

namespace lockstep::cluster {

std::string end_of_file(const std::filesystem::path& path, int64_t most_bytes) {
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return "";
  const OpenFile file(path, O_RDONLY);
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  std::string text(static_cast<size_t>(std::min(size, most_bytes)), '\0');
  text.resize(file.read_at(std::max<int64_t>(0, size - most_bytes), text));
  return text;
}

}  // namespace lockstep::cluster
