#include "lockstep/train/run/gpu_ranks.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/gpu_communicator.h"
#include "lockstep/device/failure.h"
#include "lockstep/pool/worker.h"

namespace lockstep::train {

void on_each_gpu(
    const std::vector<at::Device>& devices,
    const std::function<void(comm::Communicator& comm, std::shared_ptr<device::GpuLink> link)>& work) {
  const auto memory = comm::GroupMemory::make(static_cast<int64_t>(devices.size()));
  const comm::ThreadLinks links;
  const pool::Worker* worker = pool::Worker::current();
  std::vector<std::exception_ptr> failures(devices.size());
  {
    std::vector<std::jthread> threads;
    const auto run_rank = [&](size_t rank) {
      std::optional<pool::Worker::Scope> scope;
      if (worker != nullptr) scope.emplace(*worker);
      const auto comm =
          comm::make_communicator(memory, static_cast<int64_t>(rank), {.timeout = comm::kAsLongAsItTakes});
      try {
        work(*comm, links.link(static_cast<int64_t>(rank), devices[rank]));
      } catch (...) {
        failures[rank] = std::current_exception();
      }
    };
    try {
      for (size_t rank = 0; rank < devices.size(); ++rank) threads.emplace_back(run_rank, rank);
    } catch (...) {
      memory->fail("a thread for each GPU could not be started");  // the started ones wait
      throw;
    }
  }
  // Other ranks were only cancelled.
  const auto is_first = [](const std::exception_ptr& failure) {
    return failure && device::error_of(failure).code() != ErrorCode::cancelled;
  };
  auto found = std::find_if(failures.begin(), failures.end(), is_first);
  if (found == failures.end())
    found = std::find_if(failures.begin(), failures.end(),
                         [](const std::exception_ptr& failure) { return failure != nullptr; });
  if (found != failures.end()) std::rethrow_exception(*found);
}

std::unique_ptr<comm::Communicator> link_gpus(const TrainingRequest& request, comm::Communicator& comm,
                                              const MachinePlan& machine) {
  if (machine.device == "cpu" || comm.size() == 1) return nullptr;
  const std::shared_ptr<comm::Communicator> host(&comm, [](comm::Communicator*) {});
  if (request.gpu_link != nullptr)
    return comm::make_gpu_communicator({host, request.gpu_link}, {.timeout = comm::kAsLongAsItTakes});
  return comm::make_gpu_communicator({host, comm::link_gpus(comm, machine.gpu, {.stop = request.stop})});
}

}  // namespace lockstep::train
