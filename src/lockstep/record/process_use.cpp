#include "lockstep/record/process_use.h"

#include <unistd.h>

#include "lockstep/record/internal/process_line.h"

namespace lockstep::record {

std::optional<ProcessUse> use_of(const ProcessIdentity& identity) {
  if (!is_there(identity).value_or(false)) return std::nullopt;
  const auto line = process_line(identity.process);
  if (!line) return std::nullopt;
  return ProcessUse{.processor_seconds = static_cast<double>(line->processor_ticks) /
                                         static_cast<double>(::sysconf(_SC_CLK_TCK)),
                    .memory_bytes = line->pages * ::sysconf(_SC_PAGESIZE),
                    .threads = line->threads};
}

}  // namespace lockstep::record
