#include "lockstep/cloud/internal/package_file.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::cloud {

std::string package_file(const std::string& named, bool has_gpus) {
  if (!named.empty()) return named;
  const std::string ending = has_gpus ? ".whl" : "-linux-x86_64.tar.gz";
  std::vector<std::string> found;
  for (const char* folder : {".", "dist"}) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("lockstep-") && name.ends_with(ending)) found.push_back(entry.path().string());
    }
  }
  if (found.size() == 1) return found.front();
  std::sort(found.begin(), found.end());
  if (found.empty())
    throw Error(ErrorCode::invalid_option, "--package is missing: the machines install Lockstep from it",
                "scripts/package makes it: wheel for machines with GPUs, tarball for others");
  throw Error(ErrorCode::invalid_option,
              "--package is missing, and there are " + std::to_string(found.size()) + " packages",
              "name one of them: " + printable(join(found, ", ")));
}

}  // namespace lockstep::cloud
