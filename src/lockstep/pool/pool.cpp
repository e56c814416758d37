#include "lockstep/pool/pool.h"

#include <algorithm>

#include "lockstep/pool/internal/dispatcher.h"

namespace lockstep::pool {

int64_t Pool::size() const { return dispatcher_->size(); }
bool Pool::is_open() const { return dispatcher_->is_open(); }
bool Pool::is_whole() const { return dispatcher_->is_whole(); }
bool Pool::is_on_this_machine() const { return dispatcher_->is_on_this_machine(); }
std::vector<WorkerInfo> Pool::workers() const { return dispatcher_->workers(); }

void Pool::close() const {
  check_may_wait();
  dispatcher_->close();
}

void Pool::check_may_wait(const AnyDataQueue& queue) const {
  dispatcher_->check_may_wait();
  if (queue) check_is_not_handler(queue.core()->thread());
}

std::shared_ptr<CallRecord> Pool::start(Work work, const CallOptions& options,
                                        int64_t default_workers) const {
  work.on_gpus = options.on_gpus;
  if (options.on_gpus) default_workers = std::min(default_workers, dispatcher_->gpu_workers());
  return dispatcher_->submit(std::move(work), options.workers == 0 ? default_workers : options.workers,
                             options.queue);
}

void Pool::wait_for(const std::vector<AnyFuture>& futures, bool wait_for_all) {
  std::optional<Error> first;
  while (const auto next = next_finished_of(futures, std::nullopt)) {
    first = futures[*next].error();
    if (!first) continue;
    first->add_context("in parfor, input " + std::to_string(*next + 1) + " of " +
                       std::to_string(futures.size()));
    break;
  }
  if (!first) return;
  cancel_all(futures, wait_for_all);
  throw Error(*first);
}

void Pool::cancel_all(const std::vector<AnyFuture>& futures, bool wait_for_all) {
  for (const AnyFuture& future : futures) future.cancel();
  // A lambda may refer to its caller's stack.
  while (wait_for_all && next_finished_of(futures, std::nullopt)) {
  }
}

}  // namespace lockstep::pool
