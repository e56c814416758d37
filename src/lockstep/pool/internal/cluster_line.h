// The client's connection to a pool on a cluster: it starts the head, waits for the workers, and gives each
// of them a socket as if it were a process of this machine.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/pool/internal/crew.h"
#include "lockstep/pool/internal/pool_place.h"
#include "lockstep/pool/internal/pool_request.h"

namespace lockstep::pool {

/// Any thread may call any member. The job ends with this object, or with the program.
class ClusterLine {
 public:
  /// environment: of workers. `tell` is called with each state until all workers are here, and later when one
  /// is replaced; by a thread of this object.
  using Tell = std::function<void(const std::string&)>;
  ClusterLine(PoolRequest request, std::vector<std::string> environment, Tell tell);
  ~ClusterLine();
  ClusterLine(const ClusterLine&) = delete;
  ClusterLine& operator=(const ClusterLine&) = delete;

  /// Waits until all workers are here; false if they are not within the time. Throws cluster.
  bool wait_until_open(std::chrono::milliseconds most);
  /// Where the head is, for members that somebody else starts; waits for it. Throws cluster.
  PoolPlace place();
  /// size() if all are here.
  size_t first_missing() const;

  WorkerInfo info(size_t worker) const;
  size_t size() const;
  /// Starts worker i once more, on another machine if its own is gone.
  StartedProcess start(size_t worker);
  Json meeting(size_t worker) const;
  /// Ends the job, and waits until the scheduler has been told. One thread.
  void close();

 private:
  class Thread;
  std::unique_ptr<Thread> thread_;
};

}  // namespace lockstep::pool
