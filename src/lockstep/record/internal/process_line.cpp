#include "lockstep/record/internal/process_line.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "lockstep/base/text.h"

namespace lockstep::record {

// The name in field 2 may contain anything.
std::optional<ProcessLine> process_line(int64_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line, '\0');
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields = split(line.substr(std::min(line.size(), name_end + 2)), ' ');
  constexpr size_t kFirst = 3;  // number of the first field after the name
  constexpr size_t kLast = 24;
  if (fields.size() <= kLast - kFirst || fields.front().empty()) return std::nullopt;
  const auto number = [&](size_t field) { return parse_number<int64_t>(fields[field - kFirst]).value_or(0); };
  return ProcessLine{.state = fields.front().front(),
                     .start = number(22),
                     .processor_ticks = number(14) + number(15),
                     .threads = number(20),
                     .pages = number(kLast)};
}

}  // namespace lockstep::record
