// The workers of a pool behind one interface: threads or processes. The dispatcher decides which worker does
// what, and does not depend on the kind.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/group_memory.h"
#include "lockstep/pool/internal/process.h"
#include "lockstep/pool/pool_options.h"
#include "lockstep/pool/task.h"
#include "lockstep/pool/work.h"

namespace lockstep::pool {

/// The work of one worker.
struct Order {
  int64_t call = 0;
  int64_t rank = 0;
  std::shared_ptr<const Work> work;
  std::shared_ptr<comm::GroupMemory> group;  ///< none: a group of one
  std::vector<int64_t> gpus;                 ///< of the call's workers, by rank; -1 for none
  int64_t credits = 0;      ///< maximum number of values on their way to the DataQueue; 0: there is no queue
  bool stop_asked = false;  ///< asked before it began
};

struct Outcome {
  std::any result{};
  std::optional<Error> error{};
};

/// Why an order is stopped.
enum class StopCause { cancelled, rank_failed };

/// Called by a crew's own threads, or in calls of its members, never while a lock of the crew is held.
class CrewListener {
 public:
  virtual ~CrewListener() = default;
  virtual void ready(size_t worker) = 0;
  virtual void sent(size_t worker, int64_t call, Packet value) = 0;
  virtual void ended(size_t worker, int64_t call, Outcome outcome) = 0;
  /// The worker is gone, with its order if it had one. Another one is being started in its place, unless
  /// `for_good`.
  virtual void lost(size_t worker, const Error& error, bool for_good) = 0;
  /// Nobody has used the workers for the time that the crew may be idle. They end if it returns true, and get
  /// no order any more.
  virtual bool expires() = 0;
};

/// Any thread may call any member; only close waits for a worker.
class Crew {
 public:
  /// gpus: the GPU of each worker, -1 for none.
  explicit Crew(std::vector<int64_t> gpus) : gpus_(std::move(gpus)) {}
  virtual ~Crew() = default;
  /// Prepares the work before it is given to a worker. Throws if this crew cannot do it.
  virtual void prepare(Work& work) const = 0;
  /// Gives an order to a worker that is ready and free.
  virtual void begin(size_t worker, Order order) = 0;
  /// Requests the stop of an order; no effect if it has ended.
  virtual void stop(size_t worker, int64_t call, StopCause cause) = 0;
  /// Asks an order's task to end soon; no effect if it has ended.
  virtual void ask_to_stop(size_t worker, int64_t call) = 0;
  /// Says a word to an order's task; no effect if it has ended.
  virtual void say(size_t worker, int64_t call, std::string word) = 0;
  /// A value of the order was handled.
  virtual void credit(size_t worker, int64_t call) = 0;
  /// Without its state.
  virtual WorkerInfo info(size_t worker) const = 0;
  /// Whether the ranks of a call share memory that the client makes.
  virtual bool shares_memory() const { return true; }
  size_t workers() const { return gpus_.size(); }
  int64_t gpu(size_t worker) const { return gpus_[worker]; }
  /// Whether the calling thread is one of the workers.
  virtual bool is_worker_thread() const = 0;
  /// Stops all orders and ends all workers. Nothing is called afterwards.
  virtual void close() = 0;

 private:
  const std::vector<int64_t> gpus_;
};

/// A worker for each of `gpus`.
std::unique_ptr<Crew> make_thread_crew(std::vector<int64_t> gpus, CrewListener& listener);

/// Where a crew's processes come from: all that differs between processes of this machine, ranks of a
/// launcher, and a job on a cluster.
struct ProcessSource {
  /// Starts worker i, at first and after it has died. Called by the crew's thread, which lives as long as the
  /// crew.
  std::function<StartedProcess(size_t worker)> start{};
  /// What is known of worker i without asking it; empty: it is on this machine. Any thread.
  std::function<WorkerInfo(size_t worker)> info{};
  /// Where worker i meets the other ranks of a call; empty: all workers share memory. Any thread.
  std::function<Json(size_t worker)> meeting{};
  /// After the end of all workers, with whether they ended because of the idle limit; may be empty.
  std::function<void(bool was_idle)> closed{};
  std::chrono::seconds idle_limit{0};  ///< the pool ends after this time without a call; 0: never
};
std::unique_ptr<Crew> make_process_crew(const PoolOptions& options, std::vector<int64_t> gpus,
                                        ProcessSource source, CrewListener& listener);

/// gpu: -1 for the CPU.
at::Device device_of(int64_t gpu);

}  // namespace lockstep::pool
