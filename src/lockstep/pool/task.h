// Tasks: plain functions with a name. The name is sent to another process, because a function cannot be.
#pragma once

#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/pool/worker.h"

namespace lockstep::pool {

namespace task_detail {

template <class F>
struct Signature {
  static constexpr bool is_task = false;
  using Input = Nothing;
  using Output = void;
};
template <class Out, class In>
struct Signature<Out (*)(Worker&, const In&)> {
  static constexpr bool is_task = true;
  using Input = In;
  using Output = Out;
};
template <class Out>
struct Signature<Out (*)(Worker&)> {
  static constexpr bool is_task = true;
  using Input = Nothing;
  using Output = Out;
};

}  // namespace task_detail

/// The task of `function`, an Out(Worker&, const In&) or Out(Worker&); Out may be void. In and Out are
/// described structs.
template <auto function>
struct Task {
  using Signature = task_detail::Signature<decltype(function)>;
  static_assert(Signature::is_task,
                "a task is a function Out(Worker&, const In&) or Out(Worker&): it takes its input by const "
                "reference, and is not noexcept");
  using Input = typename Signature::Input;
  using Output = typename Signature::Output;
  static constexpr bool gives_nothing = std::is_void_v<Output>;
  using Travelling = std::conditional_t<gives_nothing, Nothing, Output>;
  static constexpr bool travels = Described<Input> && Described<Travelling>;
  static_assert(travels,
                "a task's input and result are structs with a member `describe`; see base/describe.h");

  std::string_view name;

  // Without errors that only follow from the above.
  static Packet run(Worker& worker, const Packet& packet) {
    if constexpr (Signature::is_task && travels) {
      return run_function(worker, packet);
    } else {
      return {};
    }
  }

  static void check() {
    if constexpr (travels) {
      check_travels<Input>();
      check_travels<Travelling>();
    }
  }

 private:
  static Packet run_function(Worker& worker, const Packet& packet) {
    const auto input = unpack<Input>(packet);
    const auto call = [&] {
      if constexpr (std::is_invocable_v<decltype(function), Worker&>) {
        return function(worker);
      } else {
        return function(worker, input);
      }
    };
    if constexpr (gives_nothing) {
      call();
      return {};
    } else {
      return pack(call());
    }
  }
};

/// constexpr auto digits_task = task<digits>("digits");
template <auto function>
constexpr Task<function> task(std::string_view name) {
  return {name};
}

/// A task without its types, as `run` lists them.
struct AnyTask {
  std::string_view name;
  Packet (*run)(Worker&, const Packet&);
  void (*check)();  ///< throws if its structs cannot be sent

  template <auto function>
  AnyTask(const Task<function>& task)  // NOLINT: implicit, for lists in braces
      : name(task.name), run(Task<function>::run), check(Task<function>::check) {}
};

using TaskTable = std::vector<AnyTask>;

/// The task of this name. Throws not_found with the nearest name.
const AnyTask& find_task(const TaskTable& tasks, std::string_view name);

/// Throws if two tasks have one name or a struct cannot be sent.
void check_tasks(const TaskTable& tasks);

}  // namespace lockstep::pool
