// The process in which a sweep trains trials on threads.
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <poll.h>
#include <sys/socket.h>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/arguments.h"
#include "lockstep/cli/failure.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/device/failure.h"
#include "lockstep/device/inventory.h"
#include "lockstep/device/memory.h"
#include "lockstep/launch/process.h"
#include "lockstep/sweep/trial_messages.h"
#include "lockstep/train/planning/run_memory.h"
#include "lockstep/train/run/fit.h"

namespace lockstep::cli {
namespace {

constexpr double kShareOfFree = 0.8;  // of the memory that is free at the start, where no budget is given

// Lets a trial begin when what it needs is free, or no other one runs.
class MemoryGate {
 public:
  explicit MemoryGate(int64_t budget) : budget_(static_cast<double>(budget)) {}

  // Returns false if it was stopped meanwhile.
  bool enter(double need, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return inside_ == 0 || used_ + need <= budget_; })) return false;
    used_ += need;
    ++inside_;
    return true;
  }
  void leave(double need) {
    const std::lock_guard lock(mutex_);
    used_ = --inside_ == 0 ? 0 : used_ - need;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  double budget_;
  double used_ = 0;
  int64_t inside_ = 0;
};

// What trainings with such options need. Learning rates and the like do not matter, so most trials of a sweep
// need what one of them was measured to need.
class MemoryNeeds {
 public:
  double of(const train::TrainingRequest& request, const train::Options& options) {
    Json key = to_json(options);
    for (const char* name : {"output", "resume", "seed", "pause-after-step", "workers"}) key.erase(name);
    for (auto one = key.begin(); one != key.end();)
      one = one->is_number_float() ? key.erase(one) : std::next(one);
    const std::lock_guard lock(mutex_);  // held while it measures: others need the same number
    const auto [entry, is_new] = needs_.try_emplace(key.dump(), 0.0);
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
  std::map<std::string, double> needs_;
};

const Verb& train_verb() {
  for (const Verb& verb : builtin_verbs()) {
    if (verb.name == "train") return verb;
  }
  throw Error(ErrorCode::internal, "there is no command train");
}

class TrialThreads {
 public:
  TrialThreads(int socket, int64_t memory) : socket_(socket), gate_(memory) {}

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
    const std::lock_guard lock(mutex_);
    answer.peak_memory = device::peak_memory_bytes();
    const std::string line = to_json(answer).dump() + "\n";
    // If the sweep is gone, so is this process in a moment.
    [[maybe_unused]] const ssize_t sent = ::send(socket_, line.data(), line.size(), MSG_NOSIGNAL);
    ended_.push_back(order.id);
  }

  train::EndReason train(const sweep::TrialOrder& order, const std::stop_token& stop) {
    const Call call = read_arguments(train_verb(), {order.words.begin() + 1, order.words.end()});
    const auto [options, given] = training_options(call);
    train::TrainingRequest request;
    request.folder = call.words.front();
    request.given = given;
    request.words = order.words;
    request.words.insert(request.words.begin(), "lockstep");
    request.stop = stop;
    request.images = images_;
    const double need = needs_.of(request, options);
    if (!gate_.enter(need, stop)) throw Error(ErrorCode::cancelled, "stopped before it began");
    struct Leave {
      MemoryGate& gate;
      double need;
      ~Leave() { gate.leave(need); }
    } const leave{gate_, need};
    return train::fit(request, options).reason;
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
  MemoryGate gate_;
  MemoryNeeds needs_;
  std::shared_ptr<data::ImageShare> images_ = std::make_shared<data::ImageShare>();
  std::mutex mutex_;  // protects the socket's writing end and ended_
  std::vector<int64_t> ended_;
  std::map<int64_t, std::jthread> threads_;
};

int64_t budget_of(int64_t memory) {
  return memory > 0
             ? memory
             : static_cast<int64_t>(kShareOfFree * static_cast<double>(device::inspect().free_memory_bytes));
}

}  // namespace

int run_sweep_trials(const Call& call, Console&) {
  launch::StopSignals signals("", launch::AtSecond::go_on);
  constexpr int kSocket = launch::kPassedDescriptor;
  constexpr int kMilliseconds = 200;
  TrialThreads threads(kSocket, budget_of(settings_of<SweepTrialsChoice>(call).memory));
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
