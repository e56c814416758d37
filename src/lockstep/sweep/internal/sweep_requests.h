// What others ask of the programs that work on a sweep: files in SWEEP/requests.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/sweep/engine.h"
#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::sweep {

struct SweepRequest {
  std::string what{};              ///< "stop" or "restart"
  std::optional<int64_t> trial{};  ///< nothing: the sweep
  std::filesystem::path file{};    ///< who answers removes it
};

/// Without damaged ones.
std::vector<SweepRequest> requests_in(const SweepPaths& paths);

/// Throws not_found if no program works on the sweep.
void make_request(const SweepPaths& paths, const SweepRequest& request);
/// Also for programs that come later.
void write_request(const SweepPaths& paths, const SweepRequest& request);

/// Asks the run of a trial to end with its weights, unless it has such a request that it has not taken.
void ask_run_to_end(const SweepPaths& paths, int64_t trial);

/// What earlier programs were asked for and did not see before they ended: trials that were to start again
/// do, and the other requests are forgotten. While jobs share the sweep they answer what is asked of trials,
/// and only requests to stop the whole sweep are forgotten.
void settle_earlier_requests(const SweepPaths& paths);

/// Makes or continues a sweep for this program alone, as prepare_shared_sweep does for several. The caller
/// holds the lock while it works on it.
jobs::FileLock begin_alone(const SweepPaths& paths, const SweepSpec& spec, const FoundSpec& found);

[[noreturn]] void refuse_second_program(const SweepPaths& paths);

}  // namespace lockstep::sweep
