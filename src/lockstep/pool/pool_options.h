// What a pool is asked to be.
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

enum class PoolKind { threads, processes };
constexpr std::array<const char*, 2> enum_names(PoolKind) { return {"threads", "processes"}; }

struct PoolOptions {
  std::optional<PoolKind> kind{};  ///< threads share the client's memory and take lambdas; processes are safe
                                   ///< from each other's crashes; empty: what is open, else threads
  int64_t workers = 0;             ///< 0: one for each GPU, without GPUs one for each core
  std::vector<int64_t> gpus{};  ///< the indices of the GPUs that the workers compute on (device::gpus()), one
                                ///< worker each, or equally many where `workers` says more; empty: worker i
                                ///< computes on GPU i, and where there are fewer, on the CPU
  bool quiet = false;           ///< without the lines that say that the pool starts and is connected
  std::chrono::milliseconds silence{3000};  ///< a process that says nothing for so long is ended and replaced
  std::chrono::milliseconds start_time{60'000};  ///< how long processes may take to start
  /// "NAME=value": what every worker's environment has beside, or instead of, the client's, for the worker's
  /// life; also of one that replaces another. For processes only: threads have the client's one environment,
  /// which cannot be changed under running threads.
  std::vector<std::string> environment{};
};

/// How one call differs from others.
struct CallOptions {
  int64_t workers = 0;   ///< ranks of the group: 0 is all workers of the pool for spmd, and one for parfeval
  AnyDataQueue queue{};  ///< where Worker::send sends to
  std::string name{};    ///< how messages call a lambda; a task has its own name
};

}  // namespace lockstep::pool
