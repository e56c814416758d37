#include "lockstep/data/listed_below.h"

#include <algorithm>

#include "lockstep/data/decode.h"
#include "lockstep/data/internal/kinds.h"
#include "lockstep/io/address.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

bool has_images_below(const fs::path& folder) {
  std::error_code code;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink, code);
  for (; !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (is_hidden(name)) {
      entry.disable_recursion_pending();
    } else if (entry.depth() > 0 && is_image_name(name)) {
      return true;
    }
  }
  return false;
}

bool has_data_itself(const fs::path& folder) {
  std::error_code code;
  return std::any_of(fs::directory_iterator(folder, code), fs::directory_iterator(),
                     [](const fs::directory_entry& entry) {
                       const std::string name = entry.path().filename().string();
                       return is_idx_name(name) || is_cifar_name(name);
                     });
}

}  // namespace

bool is_listed_below(const fs::path& folder, const std::string& data) {
  std::error_code code;
  if (data.empty() || io::is_address(data) || !fs::is_directory(data, code)) return false;
  const fs::path from = fs::canonical(data, code), to = fs::weakly_canonical(fs::absolute(folder), code);
  const fs::path below = to.lexically_relative(from);
  if (code || below.empty() || below == "." || *below.begin() == "..") return false;
  const bool hidden =
      std::any_of(below.begin(), below.end(), [](const fs::path& part) { return is_hidden(part.string()); });
  return !hidden && !has_data_itself(from) && has_images_below(from);
}

}  // namespace lockstep::data
