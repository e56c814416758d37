// The outcome of a call: its state, its result or its error.
#pragma once

#include <any>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::pool {

enum class FutureState { pending, running, finished, failed, cancelled };
constexpr std::array<const char*, 5> enum_names(FutureState) {
  return {"pending", "running", "finished", "failed", "cancelled"};
}

class CallRecord;

/// What futures of all types have in common. A handle: copies refer to one call. Any thread may call any
/// member, but a task may not wait without a limit for a call of its own pool, nor a handler of a DataQueue
/// for a call that names this queue: get, and next_finished without a timeout, throw invalid_option there
/// unless the call has ended.
class AnyFuture {
 public:
  /// A handle of no call; it may only be assigned to.
  AnyFuture() = default;
  explicit AnyFuture(std::shared_ptr<CallRecord> call) : call_(std::move(call)) {}

  FutureState state() const;
  bool done() const { return state() >= FutureState::finished; }
  /// Waits until the call has ended; false if it has not ended within the time.
  bool wait(std::chrono::milliseconds timeout) const;
  /// Why it failed, or that it was cancelled; nothing while it runs and after it finished.
  std::optional<Error> error() const;
  /// Removes a pending call, and tells a running one to stop (Worker::stop_token, and its collectives end). A
  /// running call counts as cancelled once its workers have left it, whatever they return. No effect on a
  /// call that has ended.
  void cancel() const;
  /// Asks the call's workers to end soon and return a result (Worker::stop_asked). Nothing is cancelled: the
  /// result arrives as usual, and a call that waits for workers still starts, and is asked from its start. No
  /// effect on a call that has ended. spmd waits for its end in the client: to use this, start the task by
  /// parfeval with as many workers.
  void ask_to_stop() const;
  /// Says a word to rank 0 of the call, which hears it with Worker::next_word; also before the call begins.
  /// No effect on a call that has ended.
  void say(std::string word) const;

 protected:
  /// Waits for the end; returns the ranks' results. Throws the error of the call.
  const std::vector<std::any>& results() const;

 private:
  friend std::optional<size_t> next_finished_of(const std::vector<AnyFuture>& futures,
                                                std::optional<std::chrono::milliseconds> timeout);
  std::shared_ptr<CallRecord> call_;
};

/// The future of a T.
template <class T>
class Future : public AnyFuture {
 public:
  using Read = T (*)(const std::vector<std::any>& results);
  Future() = default;
  Future(std::shared_ptr<CallRecord> call, Read read) : AnyFuture(std::move(call)), read_(read) {}

  /// Waits for the result. Throws the error of the rank that failed first, or cancelled; every call of get
  /// returns or throws the same. The wait ends with the call: it also ends when a worker dies or hangs, or
  /// the pool closes. On a pool of threads, the tensors of all results of a future share their memory: any
  /// thread may read them, but clone a tensor before you write to it in place.
  T get() const { return read_(results()); }

 private:
  Read read_ = nullptr;
};

/// See next_finished.
std::optional<size_t> next_finished_of(const std::vector<AnyFuture>& futures,
                                       std::optional<std::chrono::milliseconds> timeout);

/// The index of the next future that ended, in the order in which they end. Each future is returned once,
/// even if it is in several lists. Waits for one; nothing when all have been returned. Throws timeout.
///   while (auto next = next_finished(trials)) std::printf("%zu: %g\n", *next, trials[*next].get().accuracy);
template <class T>
std::optional<size_t> next_finished(const std::vector<Future<T>>& futures,
                                    std::optional<std::chrono::milliseconds> timeout = std::nullopt) {
  return next_finished_of({futures.begin(), futures.end()}, timeout);
}

}  // namespace lockstep::pool
