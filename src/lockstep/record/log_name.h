// The names of event logs: RUN/events/WRITER-attempt-A.jsonl, one file for each writer and attempt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::record {

/// The writer of a log: "rank-0", or another one such as "client", "queue" or "sweep".
std::string rank_writer(int64_t rank);

bool is_of_rank(std::string_view writer);

struct LogName {
  std::string writer;
  int64_t attempt = 0;
};

struct LogFile {
  LogName name;
  std::filesystem::path path;
};

std::string file_name(const LogName& name);

/// The logs in a run folder, by attempt and then by writer. Empty without any.
std::vector<LogFile> log_files(const std::filesystem::path& run_folder);

}  // namespace lockstep::record
