#include "lockstep/base/plug_in.h"

#include <system_error>

#include "lockstep/base/file.h"

namespace lockstep {

std::optional<std::filesystem::path> find_companion(const char* file_name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& file : {program / file_name, program / ".." / "lib" / "lockstep" / file_name}) {
    if (file.is_absolute() && std::filesystem::exists(file, error)) return file;
  }
  return std::nullopt;
}

std::filesystem::path find_plug_in(const char* file_name) {
  return find_companion(file_name).value_or(file_name);
}

std::string package_kind() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* prefix : {"..", "../.."}) {  // from bin and from lib/lockstep
    const std::string kind = first_line_of(program / prefix / "share/lockstep/package");
    if (!kind.empty()) return kind;
  }
  return "";
}

}  // namespace lockstep
