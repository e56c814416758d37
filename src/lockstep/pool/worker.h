// What a task knows about the worker that runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/pool/packet.h"
#include "lockstep/pool/shared_things.h"
#include "lockstep/pool/words.h"
#include "lockstep/pool/worker_info.h"

namespace lockstep::pool {

/// One rank of the group on which a task runs, a thread or a process. To be used by the thread that runs the
/// task, except stop_token, is_cancelled, stop_asked, next_word and send, which any thread may call.
class Worker {
 public:
  /// What a pool gives to each of its workers.
  struct Membership {
    comm::Communicator& comm;
    std::stop_token stop{};
    std::stop_token cancelled{};  ///< requested ahead of `stop` by a cancellation
    std::stop_token asked{};      ///< requested by Future::ask_to_stop
    std::shared_ptr<Words> words = std::make_shared<Words>();  ///< said by AnyFuture::say
    int64_t index = 0;                                         ///< index in the pool
    at::Device device = at::kCPU;
    std::function<void(Packet)> deliver{};  ///< empty if the call has no DataQueue
    std::shared_ptr<SharedThings> shared = std::make_shared<SharedThings>();  ///< of the process
    bool same_process = true;  ///< all ranks of the group are threads of this process
  };
  explicit Worker(Membership membership) : membership_(std::move(membership)) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  int64_t rank() const { return membership_.comm.rank(); }
  int64_t size() const { return membership_.comm.size(); }
  /// This rank's part of the work: part_of(total, size, rank), or the share of a MiniBatchQueue.
  Share share() const { return membership_.comm.share(); }
  /// If every worker of the group has a GPU, tensors on these GPUs go from GPU to GPU.
  comm::Communicator& comm() const { return membership_.comm; }
  /// Requested when the call is cancelled, another rank has failed, or the pool closes. A long task should
  /// check it regularly.
  std::stop_token stop_token() const { return membership_.stop; }
  /// Whether the client has cancelled the call or closes the pool. The failure of another rank requests the
  /// stop, but does not cancel. Any thread.
  bool is_cancelled() const { return membership_.cancelled.stop_requested(); }
  /// Whether the task should end soon and return its result: the client has asked (Future::ask_to_stop), or
  /// the stop is requested. Ranks of a group may see it in different steps; they agree by
  /// comm().all_reduce(worker.stop_asked(), comm::FlagReduction::or_).
  bool stop_asked() const { return membership_.asked.stop_requested() || membership_.stop.stop_requested(); }
  /// Requested when the client asks (Future::ask_to_stop), but not by the stop.
  std::stop_token asked_token() const { return membership_.asked; }
  /// What the client says to rank 0 (AnyFuture::say): waits for the next word; nothing after `end`. Any
  /// thread.
  std::optional<std::string> next_word(const std::stop_token& end) const {
    return membership_.words->next(end);
  }
  /// The GPU of this worker (PoolOptions::gpus), else the CPU.
  at::Device device() const { return membership_.device; }
  /// Which worker of the pool this is, on which machine, with which GPU; MATLAB's gpuDevice.
  WorkerInfo info() const {
    return make_worker_info(membership_.index,
                            membership_.device.is_cpu() ? -1 : int64_t{membership_.device.index()});
  }

  /// Whether all ranks of the group are threads of one process, which can share memory.
  bool same_process() const { return membership_.same_process; }
  /// The one object of this type that the tasks of this process share, made when it is first requested. It
  /// lives as long as the pool.
  template <class T>
  std::shared_ptr<T> shared() const {
    return membership_.shared->get<T>();
  }

  /// The worker whose task the calling thread runs; null on any other thread, also on threads that a task
  /// starts.
  static const Worker* current();
  /// Makes a worker the current one of this thread while it lives.
  class Scope {
   public:
    explicit Scope(const Worker& worker);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };

  /// Sends a value to the call's DataQueue. Values of one rank arrive in order. Waits while the queue's
  /// capacity of values is on its way. Any thread. Throws cancelled after a stop, invalid_option if the call
  /// has no queue.
  template <Described Value>
  void send(const Value& value) {
    deliver(pack(value));
  }

 private:
  void deliver(Packet packet);

  Membership membership_;
};

}  // namespace lockstep::pool
