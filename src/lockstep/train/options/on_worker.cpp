#include "lockstep/train/options/on_worker.h"

#include <algorithm>
#include <thread>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

void keep_own_gpu(device::Inventory& machine, const Options& options, int64_t own) {
  if (!options.devices.empty() && options.devices != std::vector<int64_t>{own}) {
    throw Error(ErrorCode::invalid_option,
                "--devices names GPUs " + describe_detail::text_of(options.devices) +
                    ", and a task stays on its worker's GPU " + std::to_string(own),
                "leave --devices out");
  }
  std::erase_if(machine.gpus, [&](const device::Gpu& gpu) { return gpu.index != own; });
}

}  // namespace

device::Inventory machine_here(const Options& options) {
  device::Inventory machine = device::inspect();
  const pool::Worker* worker = pool::Worker::current();
  if (worker == nullptr) return machine;
  if (options.execution == Execution::multi_gpu && worker->size() == 1) {
    throw Error(ErrorCode::invalid_option,
                "--execution multi-gpu needs several workers, and this task runs on one",
                "start the task on several, as in pool.parfeval(task, input, {.workers = 2}), or leave "
                "--execution out");
  }
  machine.cores = worker->size();
  machine.cores_reason =
      worker->size() == 1 ? "one is this task's" : std::to_string(worker->size()) + " are this task's";
  if (worker->device().is_cpu()) {
    if (!machine.gpus.empty()) machine.gpu_hint = "a pool without a number of workers has one for each GPU";
    if (!machine.gpus.empty()) machine.gpu_note = "this task's worker has none";
    machine.gpus.clear();
  } else if (worker->size() == 1 || !worker->same_process()) {
    keep_own_gpu(machine, options, worker->device().index());
  }
  return machine;
}

std::vector<int64_t> gpus_of_group(const pool::Worker& worker) {
  const at::Tensor own =
      at::full({1}, worker.device().is_cpu() ? -1 : int64_t{worker.device().index()}, at::kLong);
  std::vector<int64_t> gpus;
  for (const at::Tensor& gpu : worker.comm().all_gather(own)) gpus.push_back(gpu.item<int64_t>());
  return std::count(gpus.begin(), gpus.end(), -1) > 0 ? std::vector<int64_t>() : gpus;
}

Options with_gpus(Options options, const std::vector<int64_t>& gpus) {
  if (!options.devices.empty() || options.execution == Execution::cpu || gpus.empty()) return options;
  for (const int64_t gpu : gpus) {
    if (std::find(options.devices.begin(), options.devices.end(), gpu) == options.devices.end())
      options.devices.push_back(gpu);
  }
  const bool shared = options.devices.size() < gpus.size() && gpus.size() % options.devices.size() == 0;
  if (options.workers == 0 && shared) options.workers = static_cast<int64_t>(gpus.size());
  return options;
}

bool was_cancelled(const pool::Worker& worker) {
  constexpr std::chrono::seconds kMost{2};
  const auto until = std::chrono::steady_clock::now() + kMost;
  while (!worker.stop_token().stop_requested() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return worker.is_cancelled();
}

namespace on_worker_detail {

int64_t HandOver::put(std::shared_ptr<const void> thing, int64_t takers) {
  const std::lock_guard lock(mutex_);
  entries_[next_] = {std::move(thing), takers};
  return next_++;
}

std::shared_ptr<const void> HandOver::take(int64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(number);
  auto thing = found->second.thing;
  if (--found->second.takers == 0) entries_.erase(found);
  return thing;
}

void check_one_process(const pool::Worker& worker, const std::string& what) {
  if (worker.same_process()) return;
  throw Error(
      ErrorCode::invalid_option,
      what + " cannot use the " + std::to_string(worker.size()) + " processes of this group together",
      "call it in a group of one (parfor, parfeval), or open a pool of threads; the weights are the same");
}

std::shared_ptr<const void> hand_over(const pool::Worker& worker, std::shared_ptr<const void> thing) {
  const auto results = worker.shared<HandOver>();
  const at::Tensor number = at::zeros({1}, at::kLong);
  if (worker.rank() == 0) number.fill_(results->put(thing, worker.size() - 1));
  worker.comm().broadcast({number}, 0, {.timeout = comm::kAsLongAsItTakes});
  return worker.rank() == 0 ? thing : results->take(number.item<int64_t>());
}

}  // namespace on_worker_detail
}  // namespace lockstep::train
