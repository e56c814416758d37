// The process in which a sweep trains trials on threads.
#include <atomic>
#include <fstream>
#include <map>
#include <mutex>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/asked_options.h"
#include "lockstep/cli/failure.h"
#include "lockstep/cli/memory_gate.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/device/failure.h"
#include "lockstep/device/inventory.h"
#include "lockstep/device/memory.h"
#include "lockstep/launch/process.h"
#include "lockstep/sweep/trial_messages.h"
#include "lockstep/train/planning/prepare.h"
#include "lockstep/train/planning/run_memory.h"
#include "lockstep/train/run/fit.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kMachine = -1;      // in place of a GPU's number
constexpr double kShareOfFree = 0.8;  // of the memory that is free at the start, where no budget is given

// What trainings with such options need. Learning rates and the like do not matter, so most trials of a sweep
// need what one of them was measured to need.
class MemoryNeeds {
 public:
  train::RunMemory of(const train::TrainingRequest& request, const train::Options& options) {
    Json key = to_json(options);
    for (const char* name : {"output", "resume", "seed", "pause-after-step"}) key.erase(name);
    for (auto one = key.begin(); one != key.end();)
      one = one->is_number_float() ? key.erase(one) : std::next(one);
    const std::lock_guard lock(mutex_);  // held while it measures: others need the same number
    const auto [entry, is_new] = needs_.try_emplace(key.dump());
    if (!is_new) return entry->second;
    try {
      return entry->second = train::memory_of_run(request, options);
    } catch (...) {
      needs_.erase(entry);  // the next trial may be measured
      throw;
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::string, train::RunMemory> needs_;
};

class TrialThreads {
 public:
  TrialThreads(int socket, int64_t memory) : socket_(socket), memory_(memory) {}

  void take(const sweep::TrialOrder& order) {
    join_ended();
    if (order.words.empty()) {
      if (const auto one = threads_.find(order.id); one != threads_.end()) one->second.request_stop();
      return;
    }
    threads_[order.id] = std::jthread([this, order](const std::stop_token& stop) { run(order, stop); });
  }

  void stop() {
    for (auto& [id, thread] : threads_) thread.request_stop();
    threads_.clear();  // waits
  }

 private:
  void run(const sweep::TrialOrder& order, const std::stop_token& stop) {
    sweep::TrialAnswer answer{.id = order.id};
    try {
      // As a process would end: what a stop cuts short may lack its validation, and has no result.
      if (train(order, stop) == train::EndReason::stopped && stop.stop_requested())
        answer.status = launch::kSignalStatus + SIGTERM;
    } catch (...) {
      const Error error = as_error(std::current_exception(), device::error_of);
      std::ofstream(order.output, std::ios::app) << failure_text(error);
      answer.status = exit_status(error.code());
      answer.code = name_of(error.code());
    }
    answer.peak_memory = device::peak_memory_bytes();
    send(answer);
  }

  train::EndReason train(const sweep::TrialOrder& order, const std::stop_token& stop) {
    const Call call = read_train_words({order.words.begin() + 1, order.words.end()});
    const auto [options, given] = training_options(call);
    train::TrainingRequest request;
    request.folder = call.words.front();
    request.given = given;
    request.words = order.words;
    request.words.insert(request.words.begin(), "lockstep");
    request.stop = stop;
    request.images = images_;
    const train::RunMemory memory = needs_.of(request, options);
    const MemoryNeed need{.own = memory.own, .images = memory.images};
    say_if_images_are_large(need);
    struct Inside {
      const MemoryNeed& need;
      std::vector<MemoryGate*> gates{};
      ~Inside() {
        for (MemoryGate* gate : gates) gate->leave(need);
      }
    } inside{need};
    for (MemoryGate* gate : gates_for(memory)) {
      if (!gate->enter(need, stop)) throw Error(ErrorCode::cancelled, "stopped before it began");
      inside.gates.push_back(gate);
    }
    return train::fit(request, options).reason;
  }

  double budget_or(double free) const { return memory_ > 0 ? static_cast<double>(memory_) : free; }

  // Of the GPUs on which it trains, or of the machine. All trials enter them in the same order, so that no
  // two wait for each other.
  std::vector<MemoryGate*> gates_for(const train::RunMemory& run) {
    const std::lock_guard lock(gates_mutex_);
    if (run.gpus.empty()) return {&gates_.try_emplace(kMachine, budget_or(free_at_start_)).first->second};
    std::vector<MemoryGate*> gates;
    for (const auto& [gpu, free] : run.gpus)
      gates.push_back(&gates_.try_emplace(gpu, budget_or(free)).first->second);
    return gates;
  }

  void say_if_images_are_large(const MemoryNeed& need) {
    double images = 0;
    for (const auto& [key, bytes] : need.images) images += bytes;
    const double budget = budget_or(free_at_start_);
    if (images <= budget || has_said_.exchange(true)) return;
    const auto text = [](double bytes) { return as_bytes(static_cast<int64_t>(bytes)); };
    send({.note = "the images alone take " + text(images) + ", and trials may use " + text(budget) +
                  " (--memory): one trial is trained at a time"});
  }

  void send(const sweep::TrialAnswer& answer) {
    const std::lock_guard lock(mutex_);
    const std::string line = to_json(answer).dump() + "\n";
    // If the sweep is gone, so is this process in a moment.
    [[maybe_unused]] const ssize_t sent = ::send(socket_, line.data(), line.size(), MSG_NOSIGNAL);
    if (answer.note.empty()) ended_.push_back(answer.id);
  }

  void join_ended() {
    std::vector<int64_t> ended;
    {
      const std::lock_guard lock(mutex_);
      ended.swap(ended_);
    }
    for (const int64_t id : ended) threads_.erase(id);
  }

  int socket_;
  int64_t memory_;  // of each gate; 0: most of what is free
  double free_at_start_ = kShareOfFree * static_cast<double>(device::inspect().free_memory_bytes);
  MemoryNeeds needs_;
  std::mutex gates_mutex_;
  std::map<int64_t, MemoryGate> gates_;  // by the number of the GPU, or kMachine
  std::atomic<bool> has_said_ = false;   // that images are large
  std::shared_ptr<data::ImageShare> images_ = std::make_shared<data::ImageShare>();
  std::mutex mutex_;  // protects the socket's writing end and ended_
  std::vector<int64_t> ended_;
  std::map<int64_t, std::jthread> threads_;
};

}  // namespace

int run_sweep_check(const Call& call, Console&) {
  auto [options, given] = training_options(call);
  if (options.precision == train::Precision::auto_)
    options.precision = train::Precision::single;  // the choice trains
  train::TrainingRequest request;
  request.folder = call.words.front();
  request.given = given;
  try {
    (void)train::prepare(request, options, /*dry=*/true);
  } catch (const Error& error) {
    // Others are of the moment, and a trial may have none of them.
    if (error.code() == ErrorCode::invalid_option || error.code() == ErrorCode::not_found ||
        error.code() == ErrorCode::corrupt_data)
      throw;
  }
  return 0;
}

int run_sweep_trials(const Call& call, Console&) {
  launch::StopSignals signals("", launch::AtSecond::go_on);
  constexpr int kSocket = launch::kPassedDescriptor;
  constexpr int kMilliseconds = 200;
  TrialThreads threads(kSocket, settings_of<SweepTrialsChoice>(call).memory);
  std::string unread;
  std::array<char, 65536> piece;
  while (!signals.token().stop_requested()) {
    pollfd ready{.fd = kSocket, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kMilliseconds) <= 0) continue;
    const ssize_t got = ::read(kSocket, piece.data(), piece.size());
    if (got <= 0) break;
    unread.append(piece.data(), static_cast<size_t>(got));
    for (size_t at; (at = unread.find('\n')) != std::string::npos; unread.erase(0, at + 1)) {
      sweep::TrialOrder order;
      read_json(parse_json(unread.substr(0, at)), order, "an order of the sweep");
      threads.take(order);
    }
  }
  threads.stop();
  return 0;
}

}  // namespace lockstep::cli
