// What the page of a run shows, beside its curves.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/json.h"
#include "lockstep/studio/routes.h"

namespace lockstep::studio {

/// What its log says (RunLog::said) and {"id", "run": summary, "curves": names, "state", "reason", "hint",
/// "reads_requests", "has_report", "has_weights", "process": what it uses of this machine, if it goes on
/// here, "resume", "remove", "report": commands}. Throws not_found.
Json about_run(const std::string& id, const Parts& parts);

/// Whether the run's program answers requests.
bool reads_requests(const std::filesystem::path& folder);

}  // namespace lockstep::studio
