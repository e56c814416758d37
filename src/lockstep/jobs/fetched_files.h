// Files of a job's attempts: those that match its patterns, and the end of its diary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lockstep/jobs/job_folder.h"

namespace lockstep::jobs {

/// The files below the working folder that match a job's patterns, which are those of glob(3), without "..".
/// One thread.
class FetchedFiles {
 public:
  /// Before the command begins.
  explicit FetchedFiles(const JobSpec& spec);
  /// After its end: copies those that were written since into the attempt's folder `files`, under their
  /// names. No clock is asked: a file server may have another time. What cannot be copied is said in the
  /// diary if that can be written; returns the first failure, in one line, else an empty text.
  std::string copy(const JobPaths& paths, int64_t attempt) const;

 private:
  struct State {
    ino_t file;
    off_t bytes;
    time_t seconds;  // of its last change
    int64_t nanoseconds;
    bool operator==(const State&) const = default;
  };
  std::map<std::string, State> look() const;

  std::string base_;  // the working folder, with "/"
  std::vector<std::string> patterns_;
  std::map<std::string, State> before_;
};

/// Throws invalid_option for a pattern that leads out of the working folder.
void check_pattern(const std::string& pattern);

/// The last line with text of a file, if there is one without the indentation of a hint; empty without any.
std::string last_line_of(const std::filesystem::path& file);

}  // namespace lockstep::jobs
