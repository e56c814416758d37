#include "lockstep/pool/internal/dispatcher.h"

#include <algorithm>

#include "lockstep/pool/internal/channel.h"

namespace lockstep::pool {
namespace {

Error pool_is_closed() { return {ErrorCode::cancelled, "the pool was closed"}; }
Error call_was_cancelled() { return {ErrorCode::cancelled, "the call was cancelled"}; }

}  // namespace

Dispatcher::~Dispatcher() { close(); }

void Dispatcher::open(const MakeCrew& make_crew, std::chrono::milliseconds timeout) {
  crew_ = make_crew(*this);
  std::unique_lock lock(mutex_);
  const auto all_ready = [&] {
    return std::all_of(slots_.begin(), slots_.end(),
                       [](const Slot& slot) { return slot.state != SlotState::starting; });
  };
  const bool in_time = changed_.wait_for(lock, timeout, [&] { return start_failure_ || all_ready(); });
  open_ = in_time && !start_failure_;
  if (open_) return;
  const Error error =
      start_failure_.value_or(Error(ErrorCode::timeout, "the workers of the pool did not start within " +
                                                            std::to_string(timeout.count()) + " ms"));
  lock.unlock();
  close();
  throw Error(error);
}

std::vector<WorkerInfo> Dispatcher::workers() const {
  const std::lock_guard lock(mutex_);
  std::vector<WorkerInfo> infos;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const SlotState state = slots_[i].state;
    WorkerInfo& info =
        infos.emplace_back(crew_ == nullptr ? WorkerInfo{.index = static_cast<int64_t>(i)} : crew_->info(i));
    info.ready = state == SlotState::idle || state == SlotState::busy;
    info.busy = state == SlotState::busy;
  }
  return infos;
}

int64_t Dispatcher::gpu_workers() const {
  int64_t count = 0;
  for (size_t worker = 0; worker < slots_.size(); ++worker) count += crew_->gpu(worker) >= 0 ? 1 : 0;
  return count;
}

bool Dispatcher::is_open() const {
  const std::lock_guard lock(mutex_);
  return open_ && !closing_;
}

bool Dispatcher::is_whole() const {
  const std::lock_guard lock(mutex_);
  return std::none_of(slots_.begin(), slots_.end(),
                      [](const Slot& slot) { return slot.state == SlotState::gone; });
}

void Dispatcher::check_may_wait() const {
  if (crew_ == nullptr || !crew_->is_worker_thread()) return;
  throw Error(ErrorCode::invalid_option, "a task cannot wait for the pool that it runs in",
              "the worker that would do it may be this one; start it with parfeval and wait at the client");
}

std::shared_ptr<CallRecord> Dispatcher::submit(Work work, int64_t ranks, const AnyDataQueue& queue) {
  if (ranks < 1 || ranks > size()) {
    throw Error(
        ErrorCode::invalid_option,
        "a call cannot have " + std::to_string(ranks) + " workers in a pool of " + std::to_string(size()),
        "open a larger pool");
  }
  if (!is_open()) throw pool_is_closed();
  if (const int64_t able = gpu_workers(); work.on_gpus && (ranks > able))
    throw Error(ErrorCode::invalid_option,
                "a call cannot have " + std::to_string(ranks) + " workers on GPUs in a pool in which " +
                    std::to_string(able) + " have one",
                "open a pool with more GPUs, or let the call use any worker");
  crew_->prepare(work);
  const auto call = std::make_shared<Call>();
  call->work = std::make_shared<const Work>(std::move(work));
  call->queue = queue.core();
  call->queue_use = std::make_shared<QueueUse>();
  call->results.resize(static_cast<size_t>(ranks));
  Later later;
  {
    const std::lock_guard lock(mutex_);
    if (closing_ || !open_) throw pool_is_closed();
    call->number = next_call_++;
    call->record = std::make_shared<CallRecord>(
        weak_from_this(), call->number, call->queue == nullptr ? std::thread::id() : call->queue->thread());
    pending_.push_back(call);
    schedule(later);
  }
  run(later);
  return call->record;
}

// In the order of calls, so that small groups never overtake a large one forever.
void Dispatcher::schedule(Later& later) {
  while (!pending_.empty()) {
    const CallPointer call = pending_.front();
    size_t able = 0, idle = 0;
    for (size_t worker = 0; worker < slots_.size(); ++worker) {
      if (!may_take(worker, *call->work)) continue;
      ++able;
      idle += slots_[worker].state == SlotState::idle ? 1 : 0;
    }
    if (able < call->results.size()) {
      pending_.pop_front();
      call->cause =
          Error(ErrorCode::cluster,
                "too few workers of the pool are left for a call of " + std::to_string(call->results.size()),
                "open the pool again");
      settle(call, later);
      continue;
    }
    if (idle < call->results.size()) return;
    pending_.pop_front();
    try {
      // Not earlier, because it takes a descriptor, and there may be more waiting calls than descriptors.
      if (call->results.size() > 1 && crew_->shares_memory())
        call->group = comm::GroupMemory::make(static_cast<int64_t>(call->results.size()));
    } catch (const Error& error) {
      call->cause = error;
      settle(call, later);
      continue;
    }
    assign(call);
  }
}

void Dispatcher::assign(const CallPointer& call) {
  running_[call->number] = call;
  call->record->start();
  for (size_t worker = 0; worker < slots_.size() && call->at_work.size() < call->results.size(); ++worker) {
    if (slots_[worker].state == SlotState::idle && may_take(worker, *call->work))
      call->at_work.insert(worker);
  }
  std::vector<int64_t> gpus;
  for (const size_t worker : call->at_work) gpus.push_back(crew_->gpu(worker));
  int64_t rank = 0;
  for (const size_t worker : call->at_work) {
    slots_[worker] = {.state = SlotState::busy, .call = call->number, .rank = rank};
    crew_->begin(worker, {.call = call->number,
                          .rank = rank,
                          .work = call->work,
                          .group = call->group,
                          .gpus = gpus,
                          .credits = call->queue == nullptr ? 0 : call->queue->capacity(),
                          .stop_asked = call->stop_asked});
    ++rank;
  }
  // One by one, because all of them may be too long for one message.
  for (std::string& word : call->words) crew_->say(*call->at_work.begin(), call->number, std::move(word));
  call->words.clear();
}

std::deque<Dispatcher::CallPointer>::iterator Dispatcher::find_pending(int64_t number) {
  return std::find_if(pending_.begin(), pending_.end(),
                      [&](const CallPointer& call) { return call->number == number; });
}

void Dispatcher::cancel(int64_t number) {
  Later later;
  {
    const std::lock_guard lock(mutex_);
    const auto waiting = find_pending(number);
    if (waiting != pending_.end()) {
      const CallPointer call = *waiting;
      pending_.erase(waiting);
      call->cancel_requested = true;
      settle(call, later);
      schedule(later);
    } else if (const auto found = running_.find(number); found != running_.end() && !found->second->settled) {
      found->second->cancel_requested = true;
      tell_workers(*found->second, StopCause::cancelled, "the call was cancelled", later);
    }
  }
  run(later);
}

void Dispatcher::ask_to_stop(int64_t number) {
  Later later;  // it runs callbacks that a task has registered with its token
  {
    const std::lock_guard lock(mutex_);
    if (const auto waiting = find_pending(number); waiting != pending_.end()) {
      (*waiting)->stop_asked = true;
    } else if (const auto found = running_.find(number); found != running_.end()) {
      for (const size_t worker : found->second->at_work)
        later.push_back([this, worker, number] { crew_->ask_to_stop(worker, number); });
    }
  }
  run(later);
}

void Dispatcher::say(int64_t number, std::string word) {
  check_frame({.header = word_header(number, word)});  // refused here, and not on a thread of the crew
  const std::lock_guard lock(mutex_);
  if (const auto waiting = find_pending(number); waiting != pending_.end()) {
    (*waiting)->words.push_back(std::move(word));
  } else if (const auto found = running_.find(number); found != running_.end()) {
    for (const size_t worker : found->second->at_work) {
      if (slots_[worker].rank == 0) return crew_->say(worker, number, std::move(word));
    }
  }
}

void Dispatcher::ready(size_t worker) {
  Later later;
  {
    const std::lock_guard lock(mutex_);
    slots_[worker] = {.state = SlotState::idle, .call = -1, .rank = 0};
    changed_.notify_all();
    if (open_) schedule(later);
  }
  run(later);
}

void Dispatcher::sent(size_t worker, int64_t number, Packet value) {
  // With the lock: the failure of another rank ends the call after the values that are in its queue, and what
  // its handler refers to may then be gone.
  const std::lock_guard lock(mutex_);
  const auto found = running_.find(number);
  if (found == running_.end() || found->second->settled || found->second->queue == nullptr) return;
  const Call& call = *found->second;
  call.queue->put(call.queue_use, std::move(value), [crew = std::weak_ptr<Crew>(crew_), worker, number] {
    if (const auto alive = crew.lock()) alive->credit(worker, number);
  });
}

void Dispatcher::ended(size_t worker, int64_t number, Outcome outcome) {
  Later later;
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[worker];
    if (slot.call != number) return;
    slot.state = SlotState::idle;
    worker_left(slot, worker, later, [&](Call& call) {
      if (outcome.error) return note_failure(call, slot, *outcome.error, later);
      call.results[static_cast<size_t>(slot.rank)] = std::move(outcome.result);
    });
  }
  run(later);
}

void Dispatcher::lost(size_t worker, const Error& error, bool for_good) {
  Later later;
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[worker];
    slot.state = for_good ? SlotState::gone : SlotState::starting;
    if (!open_ && !start_failure_) start_failure_ = error;
    worker_left(slot, worker, later, [&](Call& call) { note_failure(call, slot, error, later); });
    changed_.notify_all();
  }
  run(later);
}

bool Dispatcher::expires() {
  const std::lock_guard lock(mutex_);
  if (!pending_.empty() || !running_.empty()) return false;
  open_ = false;
  return true;
}

// The worker has no order any more; `note` says what its order came to.
void Dispatcher::worker_left(Slot& slot, size_t worker, Later& later,
                             const std::function<void(Call&)>& note) {
  const auto found = running_.find(slot.call);
  if (found != running_.end()) {
    const CallPointer call = found->second;
    note(*call);
    call->at_work.erase(worker);
    settle_if_over(call, later);
    if (call->at_work.empty()) running_.erase(call->number);
  }
  slot.call = -1;
  if (open_ && !closing_) schedule(later);
}

void Dispatcher::note_failure(Call& call, const Slot& slot, Error error, Later& later) {
  const auto size = static_cast<int64_t>(call.results.size());
  const std::string reason = "rank " + std::to_string(slot.rank) + " failed: " + error.message();
  error.add_context("in " + call.work->name +
                    (size > 1 ? ", rank " + std::to_string(slot.rank) + " of " + std::to_string(size) : ""));
  const bool echo = error.code() == ErrorCode::cancelled;
  std::optional<Error>& place = echo ? call.echo : call.cause;
  if (!place) place = std::move(error);
  if (!echo) tell_workers(call, StopCause::rank_failed, reason, later);
}

// Later, because a stop runs callbacks that a task has registered with its token.
void Dispatcher::tell_workers(const Call& call, StopCause cause, const std::string& reason, Later& later) {
  if (call.group != nullptr) call.group->fail(reason);
  for (const size_t worker : call.at_work)
    later.push_back([this, worker, number = call.number, cause] { crew_->stop(worker, number, cause); });
}

// A failure of a task ends the call at once, although other ranks may notice it later. Everything else waits
// for the last rank, because a lambda may refer to its caller's stack.
void Dispatcher::settle_if_over(const CallPointer& call, Later& later) {
  const bool at_once = call->cause && !call->cancel_requested && call->work->is_task;
  if (!call->settled && (call->at_work.empty() || at_once)) settle(call, later);
}

void Dispatcher::settle(const CallPointer& call, Later& later) {
  call->settled = true;
  std::function<void(CallRecord&)> end;
  if (closing_ || call->cancel_requested) {
    end = [error = closing_ ? pool_is_closed() : call_was_cancelled()](CallRecord& record) {
      record.end_cancelled(error);
    };
  } else if (call->cause || call->echo) {
    end = [error = call->cause ? *call->cause : *call->echo](CallRecord& record) { record.fail(error); };
  } else {
    end = [results = std::move(call->results)](CallRecord& record) { record.finish(results); };
  }
  later.push_back([this, call, end = std::move(end)] { finish(call, end); });
}

void Dispatcher::finish(const CallPointer& call, const std::function<void(CallRecord&)>& end) {
  // Moved out, so that the queue's thread never holds the last use of its queue.
  std::shared_ptr<QueueCore> queue = std::move(call->queue);
  if (queue == nullptr) return end(*call->record);
  queue->after([record = call->record, use = call->queue_use, end] {
    if (use->error) record->fail(*use->error);
    end(*record);
  });
  drops_.take(std::move(queue));
}

void Dispatcher::run(Later& later) {
  for (const auto& work : later) work();
}

void Dispatcher::close() {
  Later later;
  {
    std::unique_lock lock(mutex_);
    if (crew_ == nullptr) return;
    if (closing_) return changed_.wait(lock, [&] { return closed_; });
    closing_ = true;
    for (const CallPointer& call : pending_) settle(call, later);
    pending_.clear();
    for (const auto& [number, call] : running_)
      tell_workers(*call, StopCause::cancelled, "the pool was closed", later);
  }
  run(later);
  later.clear();
  crew_->close();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, call] : running_) {
      if (!call->settled) settle(call, later);
    }
    running_.clear();
  }
  run(later);
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace lockstep::pool
