#include "lockstep/cli/data_places.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/cli/asked_options.h"
#include "lockstep/io/address.h"
#include "lockstep/io/byte_store.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// In an archive, only the archive is looked for.
bool is_data_there(const fs::path& path) {
  std::error_code none;
  // What may not be seen from here is told by the training.
  if (fs::exists(path, none) || none) return true;
  if (!io::names_archive(path.string())) return false;
  for (fs::path part = path; part.has_relative_path(); part = part.parent_path()) {
    if (fs::is_regular_file(part, none)) return true;
  }
  return false;
}

// DATA, --validation and --test.
std::vector<std::string> data_of(const std::vector<std::string>& words) {
  try {
    const Call call = read_train_words(words);
    if (call.help) return {};
    const train::Options options = asked_options(call).options;
    if (options.execution == train::Execution::parallel) return {};
    return {call.words.front(), options.validation, options.test};
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

void check_data_is_there(const std::string& path) {
  if (path.empty() || io::is_address(path)) return;
  if (!is_data_there(path)) throw errno_error(ENOENT, "open", path);
}

void check_data_of_training(const std::vector<std::string>& words) {
  for (const std::string& path : data_of(words)) check_data_is_there(path);
}

}  // namespace lockstep::cli
