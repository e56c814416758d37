#include "lockstep/record/log_name.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::record {
namespace {

constexpr std::string_view kBetween = "-attempt-", kEnding = ".jsonl", kRank = "rank-";
constexpr int64_t kMostAttempt = 1'000'000'000'000;  // one more is an attempt too

std::optional<LogName> parse_name(std::string_view text) {
  if (!text.ends_with(kEnding)) return std::nullopt;
  text.remove_suffix(kEnding.size());
  const size_t between = text.rfind(kBetween);
  if (between == std::string_view::npos || between == 0) return std::nullopt;
  const auto attempt = parse_number<int64_t>(text.substr(between + kBetween.size()));
  if (!attempt || *attempt < 0 || *attempt > kMostAttempt) return std::nullopt;
  return LogName{std::string(text.substr(0, between)), *attempt};
}

}  // namespace

std::string rank_writer(int64_t rank) { return std::string(kRank) + std::to_string(rank); }

bool is_of_rank(std::string_view writer) { return writer.starts_with(kRank); }

std::string file_name(const LogName& name) {
  return name.writer + std::string(kBetween) + std::to_string(name.attempt) + std::string(kEnding);
}

std::vector<LogFile> log_files(const std::filesystem::path& run_folder) {
  const std::filesystem::path folder = RunPaths{run_folder}.events();
  std::vector<LogFile> files;
  std::error_code code;
  std::filesystem::directory_iterator entries(folder, code);
  for (; !code && entries != std::filesystem::directory_iterator(); entries.increment(code)) {
    if (auto name = parse_name(entries->path().filename().string()))
      files.push_back({*std::move(name), entries->path()});
  }
  if (code && code.value() != ENOENT) throw errno_error(code.value(), "list", folder.string());
  std::sort(files.begin(), files.end(), [](const LogFile& a, const LogFile& b) {
    return std::tie(a.name.attempt, a.name.writer) < std::tie(b.name.attempt, b.name.writer);
  });
  return files;
}

}  // namespace lockstep::record
