#include "lockstep/cli/lockstep_program.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {

std::filesystem::path lockstep_program() {
  const auto here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const auto& candidate : {here / "lockstep", here / "../../bin/lockstep"}) {
    if (std::filesystem::exists(candidate)) return std::filesystem::canonical(candidate);
  }
  throw Error(ErrorCode::not_found, "cannot find the program lockstep near " + quote(here.native()),
              "build the target \"program\", or install Lockstep with cmake --install");
}

}  // namespace lockstep::cli
