#include "lockstep/cli/row_limit.h"

#include "lockstep/base/text.h"

namespace lockstep::cli {

std::string count_line(size_t shown, size_t total, const std::string& noun, const std::string& details) {
  const auto number = [](size_t count) { return with_commas(static_cast<int64_t>(count)); };
  return number(shown) + (shown < total ? " of " + number(total) : "") + " " + noun +
         (total == 1 ? ": " : "s: ") + details + (shown < total ? "; --limit 0 shows all" : "") + "\n";
}

}  // namespace lockstep::cli
