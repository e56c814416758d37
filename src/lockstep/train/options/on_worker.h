// fit and predict in a task of a pool: they use the workers of the task, end with its call, and run once for
// the group.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>

#include "lockstep/device/inventory.h"
#include "lockstep/pool/worker.h"
#include "lockstep/train/options/options.h"

namespace lockstep::train {

/// The part of the machine that the calling thread may use: in a task of a pool one core for each worker of
/// its group and the worker's own GPU (if threads work together, the GPUs of all), otherwise the whole
/// machine. Throws invalid_option for an execution or devices that the task cannot have.
device::Inventory machine_here(const Options& options);

/// The GPUs of a group's workers, in the order of its ranks; a GPU that several workers share is repeated.
/// Empty if a worker has no GPU. Every rank of the group calls it.
std::vector<int64_t> gpus_of_group(const pool::Worker& worker);

/// The options with these GPUs (one for each worker) as devices and workers, unless they name devices or the
/// CPU.
Options with_gpus(Options options, const std::vector<int64_t>& gpus);

/// A stop token that is stopped as soon as one of two others is. Cannot be moved.
class EitherStop {
 public:
  EitherStop(std::stop_token first, std::stop_token second)
      : first_(std::move(first), Request{&source_}), second_(std::move(second), Request{&source_}) {}
  std::stop_token token() const { return source_.get_token(); }

 private:
  struct Request {
    std::stop_source* source;
    void operator()() const { source->request_stop(); }
  };
  std::stop_source source_;
  std::stop_callback<Request> first_;
  std::stop_callback<Request> second_;
};

/// Whether the task of this worker was cancelled, after an exchange has thrown cancelled; otherwise another
/// rank has failed. Waits up to 2 s for the word, because another rank may have heard it first.
bool was_cancelled(const pool::Worker& worker);

namespace on_worker_detail {

/// Passes results from rank 0 to the other ranks of its group, which are threads of this process. Any thread
/// may call any member.
class HandOver {
 public:
  int64_t put(std::shared_ptr<const void> thing, int64_t takers);
  std::shared_ptr<const void> take(int64_t number);

 private:
  struct Entry {
    std::shared_ptr<const void> thing;
    int64_t takers;
  };
  std::mutex mutex_;
  std::map<int64_t, Entry> entries_;
  int64_t next_ = 0;
};

/// Throws for a group of several processes.
void check_one_process(const pool::Worker& worker, const std::string& what);
/// Rank 0 gives `thing`, the others wait; all return the same one.
std::shared_ptr<const void> hand_over(const pool::Worker& worker, std::shared_ptr<const void> thing);

}  // namespace on_worker_detail

/// Calls `work` on rank 0 while the other ranks of the group wait. Returns its result, or throws its error,
/// on all ranks. `what` is for messages.
template <class Work>
auto once_for_group(const pool::Worker& worker, const std::string& what, Work work) {
  using Out = std::invoke_result_t<Work&>;
  struct Outcome {
    std::optional<Out> value;
    std::exception_ptr error;
  };
  if (worker.size() == 1) return work();
  on_worker_detail::check_one_process(worker, what);
  std::shared_ptr<Outcome> mine;
  if (worker.rank() == 0) {
    mine = std::make_shared<Outcome>();
    try {
      mine->value = work();
    } catch (...) {
      mine->error = std::current_exception();
    }
  }
  const auto outcome = std::static_pointer_cast<const Outcome>(on_worker_detail::hand_over(worker, mine));
  if (outcome->error) std::rethrow_exception(outcome->error);
  return *outcome->value;
}

}  // namespace lockstep::train
