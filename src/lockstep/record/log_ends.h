// The first and last events of a run's logs, for readers that cannot take the time to read logs of gigabytes.
#pragma once

#include <filesystem>
#include <vector>

#include "lockstep/record/event.h"

namespace lockstep::record {

/// Events of rank 0, or of all writers where it has no log. A damaged line is left out, and so is what cannot
/// be read at all.
struct LogEnds {
  std::vector<Event> first;   ///< of the run: the first lines of its first attempt
  std::vector<Event> newest;  ///< the first lines of its newest attempt
  std::vector<Event> last;    ///< the last lines of its newest attempts, the newest one last;
                              ///< of logged steps only each attempt's last one, before the others;
                              ///< of an attempt that began again, lines after that
};

/// Reads at most about 10 MB, however large the logs are.
LogEnds ends_of_log(const std::filesystem::path& run_folder);

}  // namespace lockstep::record
