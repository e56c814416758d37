// Options of a pool and of a call.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/pool/data_queue.h"
#include "lockstep/pool/worker_info.h"

namespace lockstep::pool {

/// What the workers of a pool are.
enum class PoolKind { threads, processes };
constexpr std::array<const char*, 2> enum_names(PoolKind) { return {"threads", "processes"}; }

/// What a pool is opened with (Session::open_pool).
struct PoolOptions {
  /// Where the workers run (lockstep cluster list). "local" is this machine. On a cluster they are processes
  /// of a job that is submitted for the pool, and `gpus` is the scheduler's to choose. Empty: the user's
  /// default profile, or this machine if a kind of threads or GPUs are asked for.
  std::string profile{};
  /// Threads share the client's memory and accept lambdas; processes survive each other's crashes; empty: the
  /// kind of the open pool, else threads.
  std::optional<PoolKind> kind{};
  int64_t workers = 0;  ///< 0: one for each GPU, or one for each core if there are no GPUs
  /// Indices of GPUs (device::gpus()), each for one worker, or for equally many if `workers` is larger;
  /// empty: worker i computes on GPU i, and on the CPU if there are fewer GPUs.
  std::vector<int64_t> gpus{};
  bool quiet = false;                       ///< do not print that the pool starts and is connected
  std::chrono::milliseconds silence{3000};  ///< a process that is silent for this time is ended and replaced
  std::chrono::milliseconds start_time{60'000};  ///< maximum time for processes to start
  /// "NAME=value": variables that every worker's environment has in addition to, or instead of, the client's,
  /// also a worker that replaces another. For processes only: threads share the client's environment, which
  /// cannot be changed while they run.
  std::vector<std::string> environment{};
};

/// Options of one call.
struct CallOptions {
  int64_t workers = 0;   ///< ranks of the group; 0: for spmd all workers of the pool, for parfeval one
  AnyDataQueue queue{};  ///< target of Worker::send
  bool on_gpus = false;  ///< only workers that have a GPU take part; workers 0: all of these, for spmd
  std::string name{};    ///< name of a lambda in messages; a task has its own name
};

}  // namespace lockstep::pool
