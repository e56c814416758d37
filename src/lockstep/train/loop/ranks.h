// What the ranks of a run exchange beside gradients: rank 0's decisions, and whether all have the same data.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/json.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::train {

/// Rank 0's value, on every rank.
Json broadcast_json(comm::Communicator& comm, const Json& own, const comm::WaitOptions& wait = {});

/// Throws invalid_option if this rank's fingerprint (run_files.h) differs from rank 0's. The message names
/// this rank, its host and the first difference. `folder` and `folder_of_rank_0` are the folders of the
/// training data.
void compare_with_rank_0(const comm::Communicator& comm, const Json& own, const Json& rank_0,
                         const std::string& folder, const std::string& folder_of_rank_0);

/// Throws internal if a rank's hash of the weights after this step differs from rank 0's, and names the first
/// such rank.
void compare_hashes(comm::Communicator& comm, uint64_t hash, int64_t step);

}  // namespace lockstep::train
