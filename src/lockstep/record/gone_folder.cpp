#include "lockstep/record/gone_folder.h"

#include <cerrno>
#include <chrono>
#include <sys/stat.h>
#include <thread>

#include "lockstep/base/text.h"

namespace lockstep::record {

bool is_gone(const std::filesystem::path& run_folder) {
  struct stat found {};
  return ::stat(run_folder.c_str(), &found) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

void wait_until_gone(const std::filesystem::path& run_folder) {
  constexpr int kLooks = 100;
  for (int look = 0; look < kLooks && !is_gone(run_folder); ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

Error gone_folder_error(const std::filesystem::path& run_folder) {
  return {
      ErrorCode::io,
      "the run folder " + quote(run_folder.native()) + " was removed or renamed while its run went on",
      "if it has another name now, lockstep train --output NAME --resume goes on from its last checkpoint"};
}

}  // namespace lockstep::record
