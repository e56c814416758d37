// The head of a pool on a cluster: a process where the scheduler's commands are. It submits the pool's job,
// listens for its members, and carries the bytes between them and the client, which it has on its standard
// input and output. It ends, and cancels the job, when the client does.
#pragma once

namespace lockstep::pool {

/// Makes a program a head.
inline constexpr const char* kHeadArgument = "--lockstep-pool-head";

/// The first that a head writes, before its first word.
inline constexpr const char* kHeadMark = "lockstep pool head\n";

/// How long a client may be silent (its machine sleeps, its network is gone) before its pool ends.
inline constexpr int kMostClientSilence = 60;  // seconds

/// Returns the exit status.
int run_pool_head();

}  // namespace lockstep::pool
