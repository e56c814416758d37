#include "lockstep/jobs/job_store.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/text.h"

namespace lockstep::jobs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnding = ".json";
constexpr int64_t kMostValueBytes = 16 << 20;

void check_name(const std::string& name) {
  constexpr size_t kMostLetters = 100;
  const bool fits = !name.empty() && name.size() <= kMostLetters && name.front() != '.' &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
                    });
  if (!fits)
    throw Error(ErrorCode::invalid_option, quote(name) + " is no name for a value or a file of a job",
                "use letters, digits, points, - and _");
}

std::optional<Json> read_value(const fs::path& file) {
  try {
    return parse_json(read_file(file, kMostValueBytes));
  } catch (const Error&) {
  } catch (const Json::exception&) {
  }
  return std::nullopt;
}

}  // namespace

std::optional<JobStore> JobStore::of_this_process() {
  const char* folder = std::getenv("LOCKSTEP_JOB");
  const char* attempt = std::getenv("LOCKSTEP_JOB_ATTEMPT");
  const auto number = parse_number<int64_t>(attempt == nullptr ? "" : attempt);
  if (folder == nullptr || !number || *number < 1) return std::nullopt;
  return JobStore({folder}, *number);
}

void JobStore::put_value(const std::string& name, const Json& value) const {
  check_name(name);
  make_folders(paths_.values(attempt_));
  write_file_quick(paths_.values(attempt_) / (name + kEnding),
                   value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void JobStore::put_file(const std::string& name, const fs::path& file) const {
  check_name(name);
  make_folders(paths_.files(attempt_));
  const fs::path to = paths_.files(attempt_) / name;
  const fs::path hidden = paths_.files(attempt_) / ("." + name + "." + random_hex(8));
  std::error_code code;
  fs::copy_file(file, hidden, fs::copy_options::overwrite_existing, code);
  if (code) {
    std::error_code none;
    fs::remove(hidden, none);  // a part of it would fill a full disk
    throw errno_error(code.value(), "copy", file.string());
  }
  rename_path(hidden, to);
}

std::map<std::string, Json> JobStore::values() const {
  std::map<std::string, Json> values;
  std::error_code code;
  for (fs::directory_iterator at(paths_.values(attempt_), code), end; !code && at != end;
       at.increment(code)) {
    if (at->path().extension() != kEnding) continue;
    if (auto value = read_value(at->path())) values.emplace(at->path().stem().string(), *std::move(value));
  }
  return values;
}

std::optional<Json> JobStore::value(const std::string& name) const {
  const fs::path file = paths_.values(attempt_) / (name + kEnding);
  return ::access(file.c_str(), F_OK) == 0 ? read_value(file) : std::nullopt;
}

std::vector<std::string> JobStore::files() const {
  std::vector<std::string> names;
  const fs::path folder = paths_.files(attempt_);
  std::error_code code;
  for (fs::recursive_directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    if (at->is_regular_file(code) && !at->path().filename().string().starts_with("."))
      names.push_back(at->path().lexically_relative(folder).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace lockstep::jobs
