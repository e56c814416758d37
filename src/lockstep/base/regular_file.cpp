#include "lockstep/base/regular_file.h"

#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"

namespace lockstep {

void check_is_regular_file(const std::filesystem::path& path) {
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(path, code);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw Error(ErrorCode::corrupt_data, quote(path.string()) + " is no regular file",
                "remove it, or put a file in its place");
}

std::string read_regular_file(const std::filesystem::path& path, int64_t most_bytes) {
  check_is_regular_file(path);
  return read_file(path, most_bytes);
}

}  // namespace lockstep
