// Assigns work: takes calls, gives their ranks to free workers in the order of the calls, and ends each call
// once.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "lockstep/pool/internal/call_record.h"
#include "lockstep/pool/internal/crew.h"
#include "lockstep/pool/internal/queue_core.h"
#include "lockstep/pool/internal/queue_drops.h"

namespace lockstep::pool {

/// Any thread may call any member.
class Dispatcher : public CrewListener, public std::enable_shared_from_this<Dispatcher> {
 public:
  using MakeCrew = std::function<std::unique_ptr<Crew>(CrewListener&)>;
  explicit Dispatcher(int64_t workers) : slots_(static_cast<size_t>(workers)) {}
  ~Dispatcher() override;

  /// Call it first: makes the crew and waits until all its workers are ready. Throws the error of the first
  /// worker that failed, or timeout.
  void open(const MakeCrew& make_crew, std::chrono::milliseconds timeout);

  int64_t size() const { return static_cast<int64_t>(slots_.size()); }
  std::vector<WorkerInfo> workers() const;
  bool is_open() const;
  bool is_whole() const;
  /// Workers that have a GPU.
  int64_t gpu_workers() const;
  bool is_on_this_machine() const { return crew_->shares_memory(); }

  /// Throws at once for work that the crew cannot do, and after the pool was closed.
  std::shared_ptr<CallRecord> submit(Work work, int64_t ranks, const AnyDataQueue& queue);
  /// Throws if the calling thread would wait for itself.
  void check_may_wait() const;
  void cancel(int64_t call);
  void ask_to_stop(int64_t call);
  void say(int64_t call, std::string word);

  /// Cancels all calls and ends all workers. A second call waits for the end of the first.
  void close();

  void ready(size_t worker) override;
  void sent(size_t worker, int64_t call, Packet value) override;
  void ended(size_t worker, int64_t call, Outcome outcome) override;
  void lost(size_t worker, const Error& error, bool for_good) override;
  bool expires() override;

 private:
  enum class SlotState { starting, idle, busy, gone };
  struct Slot {
    SlotState state = SlotState::starting;
    int64_t call = -1;
    int64_t rank = 0;
  };
  struct Call {
    int64_t number = 0;
    std::shared_ptr<const Work> work;
    std::shared_ptr<CallRecord> record;
    std::shared_ptr<QueueCore> queue;
    std::shared_ptr<QueueUse> queue_use;
    std::shared_ptr<comm::GroupMemory> group;
    std::vector<std::any> results;
    std::set<size_t> at_work;    ///< workers that have not ended it
    std::optional<Error> cause;  ///< the first failure that is not a consequence of another one
    std::optional<Error> echo;   ///< the first "cancelled" of a rank
    bool cancel_requested = false;
    bool stop_asked = false;         ///< asked before it began
    std::vector<std::string> words;  ///< said before it began
    bool settled = false;
  };
  using CallPointer = std::shared_ptr<Call>;
  /// Work to do without the lock.
  using Later = std::vector<std::function<void()>>;

  std::deque<CallPointer>::iterator find_pending(int64_t number);
  /// Whether it may take part in the call, now or later.
  bool may_take(size_t worker, const Work& work) const {
    return slots_[worker].state != SlotState::gone && (!work.on_gpus || crew_->gpu(worker) >= 0);
  }
  void schedule(Later& later);
  void assign(const CallPointer& call);
  void worker_left(Slot& slot, size_t worker, Later& later, const std::function<void(Call&)>& note);
  void note_failure(Call& call, const Slot& slot, Error error, Later& later);
  void tell_workers(const Call& call, StopCause cause, const std::string& reason, Later& later);
  void settle_if_over(const CallPointer& call, Later& later);
  void settle(const CallPointer& call, Later& later);
  void finish(const CallPointer& call, const std::function<void(CallRecord&)>& end);
  static void run(Later& later);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  std::deque<CallPointer> pending_;
  std::map<int64_t, CallPointer> running_;
  int64_t next_call_ = 1;
  bool open_ = false;
  bool closing_ = false;
  bool closed_ = false;  ///< close is done
  std::optional<Error> start_failure_;
  std::shared_ptr<Crew> crew_;
  QueueDrops drops_;
};

}  // namespace lockstep::pool
