// What other processes see of an open pool, and how they ask to close it (jobs/open_pools.h).
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "lockstep/jobs/open_pools.h"
#include "lockstep/pool/pool.h"

namespace lockstep::pool {

/// Keeps the pool's record, with what its workers do, until the pool is closed or this object ends; and
/// closes the pool if somebody asks for it. Its own thread looks about once a second.
class PoolTrace {
 public:
  /// Throws io if the record cannot be written.
  PoolTrace(const Pool& pool, const std::string& profile);
  ~PoolTrace();
  PoolTrace(const PoolTrace&) = delete;
  PoolTrace& operator=(const PoolTrace&) = delete;

 private:
  void follow(Pool pool);

  std::unique_ptr<jobs::KeptRecord> record_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace lockstep::pool
