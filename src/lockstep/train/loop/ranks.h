// What the ranks of a run tell each other beside gradients: rank 0's decisions, and whether all have the same
// data.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/base/json.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::train {

/// Rank 0's value, on every rank.
Json broadcast_json(comm::Communicator& comm, const Json& own);

/// Throws invalid_option naming this rank, its host and the first thing in which its fingerprint
/// (run_files.h) differs from rank 0's; `folder` and `folder_of_rank_0` say where the training data are.
void compare_with_rank_0(const comm::Communicator& comm, const Json& own, const Json& rank_0,
                         const std::string& folder, const std::string& folder_of_rank_0);

/// Throws internal naming the first rank whose weights' hash after this step is another one than rank 0's.
void compare_hashes(comm::Communicator& comm, uint64_t hash, int64_t step);

}  // namespace lockstep::train
