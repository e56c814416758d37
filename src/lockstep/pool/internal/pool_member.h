// A process of a pool's job on a cluster: it starts a worker, ends it, and carries its bytes to the head.
#pragma once

#include <string>

#include "lockstep/launch/launcher.h"
#include "lockstep/pool/internal/pool_place.h"

namespace lockstep::pool {

/// Begins the words with which a scheduler starts a member; the pool's folder follows.
inline constexpr const char* kMemberArgument = "--lockstep-pool-member";

/// In place of the folder: the pool's place is on standard input.
inline constexpr const char* kPlaceOnInput = "-";

/// Works until the head ends or is silent for a minute. Returns the exit status: 0 if the head has said that
/// it ends. Throws communication if the head cannot be reached.
int run_pool_member(const std::string& folder);
int run_pool_member(const PoolPlace& place, const launch::Launch& launch);

}  // namespace lockstep::pool
