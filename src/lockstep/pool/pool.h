// A pool of workers, and the three ways to use it: spmd, parfor, parfeval.
#pragma once

#include <any>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/pool/future.h"
#include "lockstep/pool/pool_options.h"
#include "lockstep/pool/task.h"
#include "lockstep/pool/work.h"

namespace lockstep::pool {

class Dispatcher;

namespace pool_detail {

template <class Out, bool packed>
Out read_one(const std::any& result) {
  if constexpr (std::is_void_v<Out>) {
    return;
  } else if constexpr (packed) {
    return unpack<Out>(std::any_cast<const Packet&>(result));
  } else {
    return std::any_cast<const Out&>(result);
  }
}

template <class Out, bool packed>
Out read_first(const std::vector<std::any>& results) {
  return read_one<Out, packed>(results.front());
}

template <class Out>
using ListOf = std::conditional_t<
    std::is_void_v<Out>, std::type_identity<void>,
    std::type_identity<std::vector<std::conditional_t<std::is_void_v<Out>, int, Out>>>>::type;

template <class Out, bool packed>
ListOf<Out> read_all(const std::vector<std::any>& results) {
  if constexpr (!std::is_void_v<Out>) {
    std::vector<Out> list;
    for (const std::any& result : results) list.push_back(read_one<Out, packed>(result));
    return list;
  }
}

template <class Call>
std::any call_to_any(Call&& call) {
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    return {};
  } else {
    auto result = call();
    packet_detail::make_travelling(result);
    return std::any(std::move(result));
  }
}

template <auto function>
Work work_of(Task<function> task, const typename Task<function>::Input& input) {
  return {.name = std::string(task.name),
          .input = pack(input),
          .run = [](Worker& worker,
                    const Packet& packet) { return std::any(Task<function>::run(worker, packet)); },
          .is_task = true};
}

template <class F>
Work work_of_lambda(F f, const std::string& name) {
  return {.name = name.empty() ? "a lambda" : name,
          .input = {},
          .run = [f = std::make_shared<const F>(std::move(f))](
                     Worker& worker, const Packet&) { return call_to_any([&] { return (*f)(worker); }); },
          .is_task = false};
}

}  // namespace pool_detail

/// A handle: copies refer to one pool. The pool closes with its Session, by close(), or when the session
/// opens another one. Any thread may call any member, but a task may not wait for its own pool (spmd, parfor,
/// close, and futures' get throw invalid_option there), nor a handler of a DataQueue for a call that names
/// this queue.
///
/// Each function takes a task with its input, or a lambda. A lambda needs a pool of threads, and its only
/// input is what it has captured. A task's input and result are copied. In a pool of threads, the ranks of a
/// call share the tensors of the input, and spmd and parfor share them with the caller too, who waits: so a
/// task must not write to them in place. parfeval copies them once, so the caller may change its own at once.
/// A lambda's result is returned as it is, except for its tensors: all tensors (also in vectors, optionals
/// and pairs, and those of described structs) arrive on the CPU and without their graph.
///
/// What a rank throws is thrown here as an Error whose context names the task and the rank. The other ranks
/// are told: their collectives throw cancelled, and their stop tokens are set. A process that dies or hangs
/// is also an Error, with its last words, and is replaced.
class Pool {
 public:
  explicit Pool(std::shared_ptr<Dispatcher> dispatcher, PoolKind kind)
      : dispatcher_(std::move(dispatcher)), kind_(kind) {}

  int64_t size() const;
  PoolKind kind() const { return kind_; }
  bool is_open() const;
  /// False if a worker could not be replaced: calls with that many workers fail.
  bool is_whole() const;
  /// Whether its workers are on this machine, and can open what its processes share.
  bool is_on_this_machine() const;
  std::vector<WorkerInfo> workers() const;
  /// Cancels all calls. Waits for the tasks of threads to return; processes are ended after 2 s. While
  /// another thread closes the pool, it waits for the end of that.
  void close() const;

  /// Runs the task on all workers at once, as one group that can communicate. Waits; returns one result for
  /// each rank.
  template <auto function>
  auto spmd(Task<function> task, const typename Task<function>::Input& input = {},
            const CallOptions& options = {}) const {
    return start_spmd<typename Task<function>::Output, true>(pool_detail::work_of(task, input), options)
        .get();
  }
  template <std::invocable<Worker&> F>
  auto spmd(const CallOptions& options, F f) const {
    return start_spmd<std::invoke_result_t<F&, Worker&>, false>(
               pool_detail::work_of_lambda(std::move(f), options.name), options)
        .get();
  }
  template <std::invocable<Worker&> F>
  auto spmd(F f) const {
    return spmd(CallOptions{}, std::move(f));
  }

  /// Runs the task once for each input, each in a group of options.workers (0: one). All workers are used at
  /// the same time. Waits; returns the results in the order of the inputs. The first failure cancels the
  /// others and is thrown.
  template <auto function>
  auto parfor(Task<function> task, const std::vector<typename Task<function>::Input>& inputs,
              const CallOptions& options = {}) const {
    using Out = typename Task<function>::Output;
    check_may_wait(options.queue);
    const auto start_one = [&](const typename Task<function>::Input& input) {
      return Future<Out>(start(pool_detail::work_of(task, input), options, 1),
                         pool_detail::read_first<Out, true>);
    };
    // Its handler may hold what this call's caller has, so no value may come after an exception.
    const bool wait_for_all = static_cast<bool>(options.queue);
    return collect(start_each<Out>(inputs, wait_for_all, start_one), wait_for_all);
  }
  template <class In, std::invocable<Worker&, const In&> F>
  auto parfor(const std::vector<In>& inputs, F f) const {
    return parfor(CallOptions{}, inputs, std::move(f));
  }
  template <class In, std::invocable<Worker&, const In&> F>
  auto parfor(const CallOptions& options, const std::vector<In>& inputs, F f) const {
    using Out = std::invoke_result_t<F&, Worker&, const In&>;
    check_may_wait(options.queue);
    const auto shared = std::make_shared<const F>(std::move(f));
    const auto start_one = [&](const In& input) {
      return parfeval(options, [shared, input](Worker& worker) { return (*shared)(worker, input); });
    };
    return collect(start_each<Out>(inputs, /*wait_for_all=*/true, start_one), /*wait_for_all=*/true);
  }

  /// Runs the task when a worker is free and returns at once. With options.workers = k it runs on a group of
  /// k, and the result is rank 0's.
  template <auto function>
  Future<typename Task<function>::Output> parfeval(Task<function> task,
                                                   const typename Task<function>::Input& input = {},
                                                   const CallOptions& options = {}) const {
    using Out = typename Task<function>::Output;
    Work work = pool_detail::work_of(task, input);
    work.copies_input = true;
    return {start(std::move(work), options, 1), pool_detail::read_first<Out, true>};
  }
  template <std::invocable<Worker&> F>
  auto parfeval(const CallOptions& options, F f) const {
    using Out = std::invoke_result_t<F&, Worker&>;
    return Future<Out>(start(pool_detail::work_of_lambda(std::move(f), options.name), options, 1),
                       pool_detail::read_first<Out, false>);
  }
  template <std::invocable<Worker&> F>
  auto parfeval(F f) const {
    return parfeval(CallOptions{}, std::move(f));
  }

  /// spmd of a task without its types; the packet of rank 0's result.
  Packet run_packed(const AnyTask& task, const Packet& input) const;

 private:
  std::shared_ptr<CallRecord> start(Work work, const CallOptions& options, int64_t default_workers) const;
  void check_may_wait(const AnyDataQueue& queue = {}) const;
  static void wait_for(const std::vector<AnyFuture>& futures, bool wait_for_all);
  static void cancel_all(const std::vector<AnyFuture>& futures, bool wait_for_all);

  /// start(input) for each; if one cannot be started, the others are cancelled.
  template <class Out, class In, class Start>
  std::vector<Future<Out>> start_each(const std::vector<In>& inputs, bool wait_for_all, Start&& start) const {
    std::vector<Future<Out>> futures;
    try {
      for (const In& input : inputs) futures.push_back(start(input));
    } catch (...) {
      cancel_all({futures.begin(), futures.end()}, wait_for_all);
      throw;
    }
    return futures;
  }

  template <class Out, bool packed>
  Future<pool_detail::ListOf<Out>> start_spmd(Work work, const CallOptions& options) const {
    check_may_wait(options.queue);
    return {start(std::move(work), options, size()), pool_detail::read_all<Out, packed>};
  }

  template <class Out>
  pool_detail::ListOf<Out> collect(const std::vector<Future<Out>>& futures, bool wait_for_all) const {
    wait_for({futures.begin(), futures.end()}, wait_for_all);
    if constexpr (!std::is_void_v<Out>) {
      std::vector<Out> results;
      for (const auto& future : futures) results.push_back(future.get());
      return results;
    }
  }

  std::shared_ptr<Dispatcher> dispatcher_;
  PoolKind kind_;
};

}  // namespace lockstep::pool
