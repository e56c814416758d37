// Workers that are threads of the client.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>

#include <ATen/Parallel.h>

#include "lockstep/comm/gpu_communicator.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/device/failure.h"
#include "lockstep/device/gpu.h"
#include "lockstep/pool/internal/credits.h"
#include "lockstep/pool/internal/crew.h"
#include "lockstep/pool/words.h"

namespace lockstep::pool {
namespace {

struct ThreadJob {
  Order order;
  std::stop_source stop;
  std::stop_source cancelled;  ///< requested ahead of `stop` by StopCause::cancelled
  std::stop_source asked;      ///< requested by Future::ask_to_stop
  Credits credits;
  const std::shared_ptr<Words> words = std::make_shared<Words>();
  std::shared_ptr<const comm::ThreadLinks> links = {};  ///< between its group's GPUs
  explicit ThreadJob(Order given) : order(std::move(given)), credits(order.credits) {
    if (order.stop_asked) asked.request_stop();
  }
};

// What a process would have a copy of: tensors that others have too, who may change them.
void copy_shared(Packet& packet) {
  for (auto& [name, tensor] : packet.tensors) {
    if (!tensor.has_storage() || tensor.storage().use_count() > 1) tensor = tensor.clone();
  }
}

class ThreadCrew : public Crew {
 public:
  ThreadCrew(std::vector<int64_t> gpus, CrewListener& listener)
      : Crew(std::move(gpus)), listener_(listener), seats_(workers()) {
    start_threads();
    for (const Seat& seat : seats_) threads_.push_back(seat.thread.get_id());
    for (size_t worker = 0; worker < seats_.size(); ++worker) listener_.ready(worker);
  }
  ~ThreadCrew() override { close(); }

  void prepare(Work& work) const override;
  void begin(size_t worker, Order order) override;
  void stop(size_t worker, int64_t call, StopCause cause) override;
  void ask_to_stop(size_t worker, int64_t call) override;
  void say(size_t worker, int64_t call, std::string word) override;
  void credit(size_t worker, int64_t call) override;
  WorkerInfo info(size_t worker) const override {
    return make_worker_info(static_cast<int64_t>(worker), gpu(worker));
  }
  bool is_worker_thread() const override {
    return std::find(threads_.begin(), threads_.end(), std::this_thread::get_id()) != threads_.end();
  }
  void close() override;

 private:
  struct Seat {
    std::thread thread;
    std::shared_ptr<ThreadJob> job;  ///< given and not ended
    bool fresh = false;              ///< given and not begun
  };

  void start_threads();
  void serve(size_t worker);
  Outcome perform(size_t worker, ThreadJob& job);
  std::unique_ptr<comm::Communicator> communicator_for(size_t worker, ThreadJob& job);
  std::shared_ptr<const comm::ThreadLinks> links_of(int64_t call);
  std::shared_ptr<ThreadJob> job_of(size_t worker, int64_t call);

  CrewListener& listener_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Seat> seats_;
  const std::shared_ptr<SharedThings> shared_ = std::make_shared<SharedThings>();
  std::vector<std::thread::id> threads_;                             ///< does not change after construction
  std::map<int64_t, std::weak_ptr<const comm::ThreadLinks>> links_;  ///< by call
  bool closing_ = false;
};

void ThreadCrew::start_threads() {
  size_t worker = 0;
  try {
    for (; worker < seats_.size(); ++worker)
      seats_[worker].thread = std::thread([this, worker] { serve(worker); });
  } catch (const std::system_error& error) {
    close();
    throw comm::thread_start_error(error, worker + 1, static_cast<int64_t>(seats_.size()));
  }
}

void ThreadCrew::prepare(Work& work) const {
  if (work.copies_input) copy_shared(work.input);
}

void ThreadCrew::begin(size_t worker, Order order) {
  const std::lock_guard lock(mutex_);
  seats_[worker].job = std::make_shared<ThreadJob>(std::move(order));
  seats_[worker].fresh = true;
  changed_.notify_all();
}

std::shared_ptr<ThreadJob> ThreadCrew::job_of(size_t worker, int64_t call) {
  const std::lock_guard lock(mutex_);
  const auto& job = seats_[worker].job;
  return job != nullptr && job->order.call == call ? job : nullptr;
}

void ThreadCrew::stop(size_t worker, int64_t call, StopCause cause) {
  const auto job = job_of(worker, call);
  if (job == nullptr) return;
  if (cause == StopCause::cancelled) job->cancelled.request_stop();
  job->stop.request_stop();
}

void ThreadCrew::ask_to_stop(size_t worker, int64_t call) {
  if (const auto job = job_of(worker, call)) job->asked.request_stop();
}

void ThreadCrew::say(size_t worker, int64_t call, std::string word) {
  if (const auto job = job_of(worker, call)) job->words->put(std::move(word));
}

void ThreadCrew::credit(size_t worker, int64_t call) {
  if (const auto job = job_of(worker, call)) job->credits.give(1);
}

void ThreadCrew::serve(size_t worker) {
  at::set_num_threads(
      1);  // the cores are for the workers; and the bits are those of a process, which does the same
  while (true) {
    std::unique_lock lock(mutex_);
    Seat& seat = seats_[worker];
    changed_.wait(lock, [&] { return closing_ || seat.fresh; });
    if (!seat.fresh) return;
    seat.fresh = false;
    const std::shared_ptr<ThreadJob> job = seat.job;
    lock.unlock();
    Outcome outcome = perform(worker, *job);
    lock.lock();
    seat.job = nullptr;
    lock.unlock();
    listener_.ended(worker, job->order.call, std::move(outcome));
  }
}

// The same for all ranks of a call, until the last of them has ended.
std::shared_ptr<const comm::ThreadLinks> ThreadCrew::links_of(int64_t call) {
  const std::lock_guard lock(mutex_);
  std::erase_if(links_, [](const auto& entry) { return entry.second.expired(); });
  auto links = links_[call].lock();
  if (links == nullptr) links_[call] = links = std::make_shared<const comm::ThreadLinks>();
  return links;
}

std::unique_ptr<comm::Communicator> ThreadCrew::communicator_for(size_t worker, ThreadJob& job) {
  const Order& order = job.order;
  const comm::CommunicatorOptions options{.stop = job.stop.get_token()};
  if (order.group == nullptr) return comm::make_communicator(options);
  auto host = comm::make_communicator(order.group, order.rank, options);
  if (std::ranges::find(order.gpus, -1) != order.gpus.end()) return host;
  job.links = links_of(order.call);
  const at::Device device = device::gpu_library().device(gpu(worker));
  return comm::make_gpu_communicator({std::move(host), job.links->link(order.rank, device)}, options);
}

Outcome ThreadCrew::perform(size_t worker, ThreadJob& job) {
  const Order& order = job.order;
  std::unique_ptr<comm::Communicator> comm;
  const auto deliver = [&](Packet packet) {
    job.credits.take(job.stop.get_token());
    copy_shared(packet);
    listener_.sent(worker, order.call, std::move(packet));
  };
  try {
    comm = communicator_for(worker, job);
    Worker place({.comm = *comm,
                  .stop = job.stop.get_token(),
                  .cancelled = job.cancelled.get_token(),
                  .asked = job.asked.get_token(),
                  .words = job.words,
                  .index = static_cast<int64_t>(worker),
                  .device = device_of(gpu(worker)),
                  .deliver = order.credits > 0 ? deliver : std::function<void(Packet)>(),
                  .shared = shared_});
    const Worker::Scope scope(place);
    std::any result = order.work->run(place, order.work->input);
    if (order.work->is_task) copy_shared(std::any_cast<Packet&>(result));
    return {.result = std::move(result)};
  } catch (...) {
    Error error = device::error_of(std::current_exception());
    if (comm != nullptr) comm->abort(error);
    return {.error = std::move(error)};
  }
}

void ThreadCrew::close() {
  std::vector<std::shared_ptr<ThreadJob>> jobs;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    for (const Seat& seat : seats_) jobs.push_back(seat.job);
    changed_.notify_all();
  }
  for (const auto& job : jobs) {
    if (job == nullptr) continue;
    job->cancelled.request_stop();
    job->stop.request_stop();
  }
  for (Seat& seat : seats_) {
    if (seat.thread.joinable()) seat.thread.join();
  }
}

}  // namespace

at::Device device_of(int64_t gpu) {
  return gpu < 0 ? at::Device(at::kCPU) : at::Device(at::kCUDA, static_cast<at::DeviceIndex>(gpu));
}

std::unique_ptr<Crew> make_thread_crew(std::vector<int64_t> gpus, CrewListener& listener) {
  return std::make_unique<ThreadCrew>(std::move(gpus), listener);
}

}  // namespace lockstep::pool
