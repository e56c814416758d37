// What a process that writes a run uses of its machine.
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/record/process_identity.h"

namespace lockstep::record {

struct ProcessUse {
  double processor_seconds = 0;  ///< of all threads since it began
  int64_t memory_bytes = 0;      ///< that are in memory now
  int64_t threads = 0;
};

/// Nothing if the process is gone, on another machine, or counts in another namespace.
std::optional<ProcessUse> use_of(const ProcessIdentity& identity);

}  // namespace lockstep::record
