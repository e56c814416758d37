#include "lockstep/base/plug_in.h"

#include <system_error>

namespace lockstep {

std::filesystem::path find_plug_in(const char* file_name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& file : {program / file_name, program / ".." / "lib" / "lockstep" / file_name}) {
    if (std::filesystem::exists(file, error)) return file;
  }
  return file_name;
}

}  // namespace lockstep
