#include "lockstep/studio/glimpse.h"

#include <algorithm>
#include <cstdint>
#include <fcntl.h>
#include <string>
#include <string_view>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"

namespace lockstep::studio {
namespace {

constexpr int64_t kShort = int64_t{32} << 20;  // is read at once
constexpr int64_t kEnds = int64_t{1} << 17;
constexpr int64_t kPlace = int64_t{1} << 13;
constexpr int64_t kPlaces = 600;  // in all logs

void take_lines(std::string_view text, const record::LogName& log, LogContents& contents) {
  for (const record::MeasuredLines& lines : record::read_measured_lines(text)) {
    if (lines.keys) {
      contents.take(lines, log);
      continue;
    }
    for (std::string_view rest = lines.text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(line.size() + 1);
      try {
        record::Event event = record::from_line(line);
        event.writer = log.writer;
        event.attempt = log.attempt;
        contents.take(event);
      } catch (const Error&) {  // will be named when the log is read
      }
    }
  }
}

// The whole lines of a part of a file.
std::string_view read_part(const OpenFile& file, int64_t from, int64_t to, std::string& bytes) {
  bytes.resize(static_cast<size_t>(to - from));
  std::string_view text(bytes.data(), file.read_at(from, bytes));
  if (from > 0) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text.substr(0, text.rfind('\n') + 1);
}

void take_log(const record::LogFile& log, int64_t size, int64_t places, LogContents& contents) {
  const OpenFile file(log.path, O_RDONLY);
  std::string bytes;
  if (size <= 2 * kEnds) return take_lines(read_part(file, 0, size, bytes), log.name, contents);
  take_lines(read_part(file, 0, kEnds, bytes), log.name, contents);
  const int64_t middle = size - 2 * kEnds;
  for (int64_t i = 0; i < places; ++i) {
    const int64_t from = kEnds + middle / places * i;
    take_lines(read_part(file, from, std::min(from + kPlace, size - kEnds), bytes), log.name, contents);
  }
  take_lines(read_part(file, size - kEnds, size, bytes), log.name, contents);
}

}  // namespace

std::optional<LogContents> glimpse_of(const std::filesystem::path& run_folder) {
  try {
    int64_t all = 0;
    std::vector<std::pair<record::LogFile, int64_t>> logs;
    for (const record::LogFile& log : record::log_files(run_folder)) {
      std::error_code code;
      const auto size = std::filesystem::file_size(log.path, code);
      if (code || size == 0) continue;
      logs.emplace_back(log, static_cast<int64_t>(size));
      all += logs.back().second;
    }
    if (all < kShort) return std::nullopt;
    LogContents contents;
    for (const auto& [log, size] : logs) {
      const auto places =
          static_cast<int64_t>(static_cast<double>(size) / static_cast<double>(all) * kPlaces);
      take_log(log, size, std::max<int64_t>(places, 1), contents);
    }
    return contents;
  } catch (const Error&) {  // will be named when the logs are read
    return std::nullopt;
  }
}

}  // namespace lockstep::studio
