#include "lockstep/train/step/pass_threads.h"

#include <condition_variable>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include <ATen/Parallel.h>

#include "lockstep/comm/thread_group.h"

namespace lockstep::train {

/// A thread that waits for work, which must not throw. It keeps a runner from one work to the next.
class PassThreads::Helper {
 public:
  using Work = std::function<void(std::unique_ptr<ShardRunner>& runner)>;

  explicit Helper(size_t number) try : thread_([this] { serve(); }) {
  } catch (const std::system_error& error) {
    throw comm::thread_start_error(error, number, static_cast<int64_t>(number));
  }
  ~Helper() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  void begin(Work work) {
    {
      const std::lock_guard lock(mutex_);
      work_ = std::move(work);
    }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !work_; });
  }

 private:
  void serve() {
    at::set_num_threads(1);
    std::unique_ptr<ShardRunner> runner;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return closing_ || work_; });
      if (closing_) return;
      lock.unlock();
      work_(runner);
      lock.lock();
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Work work_;  // empty: none
  bool closing_ = false;
  std::thread thread_;
};

struct PassThreads::State {
  explicit State(MakeRunner make) : make_runner(std::move(make)) {}
  MakeRunner make_runner;
  std::mutex turn;
  std::vector<std::unique_ptr<Helper>> helpers;
};

PassThreads::PassThreads(MakeRunner make_runner) : state_(std::make_unique<State>(std::move(make_runner))) {}
PassThreads::~PassThreads() = default;

void PassThreads::run(size_t count, ShardRunner& own, const Pass& pass,
                      const std::function<void()>& give_up) {
  std::exception_ptr failure;  // guarded by the turn
  const auto run_one = [&](size_t index, const std::function<ShardRunner&()>& runner) {
    Turn turn(state_->turn);
    try {
      pass(index, runner(), turn);
    } catch (...) {
      if (!turn.owns_lock()) turn.lock();
      if (failure == nullptr) failure = std::current_exception();
      give_up();
    }
  };
  while (state_->helpers.size() + 1 < count)
    state_->helpers.push_back(std::make_unique<Helper>(state_->helpers.size() + 1));
  for (size_t index = 1; index < count; ++index) {
    state_->helpers[index - 1]->begin([&, index](std::unique_ptr<ShardRunner>& kept) {
      run_one(index, [&]() -> ShardRunner& {
        if (kept == nullptr) kept = state_->make_runner();
        return *kept;
      });
    });
  }
  run_one(0, [&]() -> ShardRunner& { return own; });
  for (size_t index = 1; index < count; ++index) state_->helpers[index - 1]->wait();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace lockstep::train
