// What will come of a call: its state, its result or its error.
#pragma once

#include <any>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::pool {

enum class FutureState { pending, running, finished, failed, cancelled };
constexpr std::array<const char*, 5> enum_names(FutureState) {
  return {"pending", "running", "finished", "failed", "cancelled"};
}

class CallRecord;

/// What futures of all types have. A handle: copies are of one call. Any thread may call any member, but a
/// task may not wait without an end for a call of its own pool: get, and next_finished without a timeout,
/// throw invalid_option there, unless it has ended.
class AnyFuture {
 public:
  /// A handle of no call: nothing but assignment may be done with it.
  AnyFuture() = default;
  explicit AnyFuture(std::shared_ptr<CallRecord> call) : call_(std::move(call)) {}

  FutureState state() const;
  bool done() const { return state() >= FutureState::finished; }
  /// Waits until the call has ended; false when it has not within the time.
  bool wait(std::chrono::milliseconds timeout) const;
  /// Why it failed, or that it was cancelled; nothing while it runs and when it finished.
  std::optional<Error> error() const;
  /// A pending call is taken back; a running one is told (Worker::stop_token, and its collectives end). It
  /// counts as cancelled once its worker has let go of it, whatever it gives then. Nothing happens when it
  /// has ended.
  void cancel() const;
  /// Asks the call's workers to end soon by themselves (Worker::stop_asked). Nothing is cancelled: the result
  /// comes as usual, and a call that waits for workers begins all the same, and is asked from its beginning.
  /// Nothing happens when it has ended. For spmd, at whose end the client waits: start the task by parfeval
  /// with as many workers.
  void ask_to_stop() const;

 protected:
  /// Waits for the end; the ranks' results. Throws what the call failed with.
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
  /// gives or throws the same. The wait ends with the call: a worker that dies or hangs ends it too, and so
  /// does closing the pool.
  T get() const { return read_(results()); }

 private:
  Read read_ = nullptr;
};

/// See next_finished.
std::optional<size_t> next_finished_of(const std::vector<AnyFuture>& futures,
                                       std::optional<std::chrono::milliseconds> timeout);

/// The index of the next future that ended, in the order in which they end; each is given once, by whichever
/// list. Waits for one; nothing when all were given. Throws timeout.
///   while (auto next = next_finished(trials)) std::printf("%zu: %g\n", *next, trials[*next].get().accuracy);
template <class T>
std::optional<size_t> next_finished(const std::vector<Future<T>>& futures,
                                    std::optional<std::chrono::milliseconds> timeout = std::nullopt) {
  return next_finished_of({futures.begin(), futures.end()}, timeout);
}

}  // namespace lockstep::pool
