#include "lockstep/jobs/fetched_files.h"

#include <algorithm>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"

namespace lockstep::jobs {
namespace {

namespace fs = std::filesystem;

// The folder's own name must not act as a pattern.
std::string escaped(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern;
}

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> names;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return names;
}

// As far as there is room for it. The result tells the first failure.
void try_say_in_diary(const JobPaths& paths, int64_t attempt, const std::string& text) {
  try {
    OpenFile diary(paths.diary(attempt), O_WRONLY | O_CREAT | O_APPEND);
    diary.write("lockstep: " + text + "\n");
  } catch (const Error&) {
  }
}

}  // namespace

void check_pattern(const std::string& pattern) {
  const std::vector<std::string> parts = split(pattern, '/');
  if (pattern.empty() || pattern.front() == '/' || std::find(parts.begin(), parts.end(), "..") != parts.end())
    throw Error(ErrorCode::invalid_option,
                "--fetch " + quote(pattern) + " does not name files below the working folder",
                "use a pattern such as *.csv or out/*.txt");
}

FetchedFiles::FetchedFiles(const JobSpec& spec)
    : base_(spec.working_folder + "/"), patterns_(spec.fetch), before_(look()) {}

std::map<std::string, FetchedFiles::State> FetchedFiles::look() const {
  std::map<std::string, State> found;
  for (const std::string& pattern : patterns_) {
    for (const std::string& name : matches(escaped(base_) + pattern)) {
      // Opening a file asks its server; what was last known of it may be seconds old.
      const Descriptor file(::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
      struct stat status {};
      if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
      found[name] = {status.st_ino, status.st_size, status.st_ctim.tv_sec, status.st_ctim.tv_nsec};
    }
  }
  return found;
}

std::string FetchedFiles::copy(const JobPaths& paths, int64_t attempt) const {
  std::string first;
  for (const auto& [name, state] : look()) {
    if (const auto before = before_.find(name); before != before_.end() && before->second == state) continue;
    const fs::path to = paths.files(attempt) / name.substr(base_.size());
    std::error_code code, none;
    fs::create_directories(to.parent_path(), code);
    if (!code) fs::copy_file(name, to, fs::copy_options::overwrite_existing, code);
    if (!code) continue;
    fs::remove(to, none);  // a part of it would fill a full disk
    const std::string failure = errno_error(code.value(), "fetch", name).message();
    try_say_in_diary(paths, attempt, failure);
    if (first.empty()) first = failure;
  }
  return first;
}

std::string last_line_of(const fs::path& file) {
  constexpr int64_t kMostBytes = 2000;
  std::error_code code;
  const auto size = static_cast<int64_t>(fs::file_size(file, code));
  if (code) return "";
  std::string end(static_cast<size_t>(std::min(size, kMostBytes)), '\0');
  end.resize(OpenFile(file, O_RDONLY).read_at(size - static_cast<int64_t>(end.size()), end));
  std::string line;
  for (size_t last = end.find_last_not_of(" \t\r\n"); last != std::string::npos;) {
    end.resize(last + 1);
    const size_t before = end.find_last_of("\r\n");
    const std::string found = before == std::string::npos ? end : end.substr(before + 1);
    if (line.empty() || found.front() != ' ') line = found;
    if (line.front() != ' ' || before == std::string::npos) break;
    last = end.find_last_not_of(" \t\r\n", before);
  }
  return line;
}

}  // namespace lockstep::jobs
