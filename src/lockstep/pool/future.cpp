#include "lockstep/pool/future.h"

#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/pool/internal/dispatcher.h"

namespace lockstep::pool {
namespace {

// As good as without a limit; the clock would overflow with the longest durations.
constexpr std::chrono::milliseconds kMostWaiting = std::chrono::hours(24 * 365);

}  // namespace

void CallRecord::start() {
  const std::lock_guard lock(mutex_);
  if (state_ == FutureState::pending) state_ = FutureState::running;
}

void CallRecord::finish(std::vector<std::any> results) {
  end(FutureState::finished, std::move(results), std::nullopt);
}
void CallRecord::fail(Error error) { end(FutureState::failed, {}, std::move(error)); }
void CallRecord::end_cancelled(Error error) { end(FutureState::cancelled, {}, std::move(error)); }

void CallRecord::end(FutureState state, std::vector<std::any> results, std::optional<Error> error) {
  std::vector<std::weak_ptr<Bell>> bells;
  {
    const std::lock_guard lock(mutex_);
    if (state_ >= FutureState::finished) return;
    state_ = state;
    results_ = std::move(results);
    error_ = std::move(error);
    ended_at_ = std::chrono::steady_clock::now();
    bells.swap(bells_);
    changed_.notify_all();
  }
  for (const auto& known : bells) {
    const auto bell = known.lock();
    if (bell == nullptr) continue;
    const std::lock_guard lock(bell->mutex);
    ++bell->count;
    bell->rung.notify_all();
  }
}

FutureState CallRecord::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

std::optional<Error> CallRecord::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void CallRecord::cancel() const {
  if (const auto pool = pool_.lock()) pool->cancel(number_);
}

void CallRecord::say(std::string word) const {
  if (const auto pool = pool_.lock()) pool->say(number_, std::move(word));
}

void CallRecord::ask_to_stop() const {
  if (const auto pool = pool_.lock()) pool->ask_to_stop(number_);
}

void CallRecord::check_may_wait() const {
  if (state() >= FutureState::finished) return;
  check_is_not_handler(handler_);
  if (const auto pool = pool_.lock()) pool->check_may_wait();
}

bool CallRecord::wait(std::optional<std::chrono::milliseconds> timeout) const {
  if (!timeout) check_may_wait();
  std::unique_lock lock(mutex_);
  const auto ended = [&] { return state_ >= FutureState::finished; };
  if (timeout) return changed_.wait_for(lock, std::min(*timeout, kMostWaiting), ended);
  changed_.wait(lock, ended);
  return true;
}

const std::vector<std::any>& CallRecord::results() const {
  wait(std::nullopt);
  if (error_) throw Error(*error_);  // nothing changes after the end
  return results_;
}

std::optional<std::chrono::steady_clock::time_point> CallRecord::untaken_end() const {
  const std::lock_guard lock(mutex_);
  if (state_ < FutureState::finished || taken_) return std::nullopt;
  return ended_at_;
}

bool CallRecord::taken() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

bool CallRecord::take() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(taken_, true);
}

void CallRecord::ring_at_end(const std::shared_ptr<Bell>& bell) {
  const std::lock_guard lock(mutex_);
  if (state_ >= FutureState::finished) return;
  std::erase_if(bells_, [](const std::weak_ptr<Bell>& known) { return known.expired(); });
  bells_.push_back(bell);
}

FutureState AnyFuture::state() const { return call_->state(); }
bool AnyFuture::wait(std::chrono::milliseconds timeout) const { return call_->wait(timeout); }
std::optional<Error> AnyFuture::error() const { return call_->error(); }
void AnyFuture::cancel() const { call_->cancel(); }
void AnyFuture::ask_to_stop() const { call_->ask_to_stop(); }
void AnyFuture::say(std::string word) const { call_->say(std::move(word)); }
const std::vector<std::any>& AnyFuture::results() const { return call_->results(); }

std::optional<size_t> next_finished_of(const std::vector<AnyFuture>& futures,
                                       std::optional<std::chrono::milliseconds> timeout) {
  const auto until =
      std::chrono::steady_clock::now() + std::min(timeout.value_or(kMostWaiting), kMostWaiting);
  const auto bell = std::make_shared<Bell>();
  for (const AnyFuture& future : futures) future.call_->ring_at_end(bell);
  while (true) {
    uint64_t seen = 0;
    {
      const std::lock_guard lock(bell->mutex);
      seen = bell->count;
    }
    std::optional<size_t> first;
    std::optional<std::chrono::steady_clock::time_point> first_end;
    for (size_t i = 0; i < futures.size(); ++i) {
      const auto end = futures[i].call_->untaken_end();
      if (!end || (first_end && *first_end <= *end)) continue;
      first = i;
      first_end = end;
    }
    if (first && futures[*first].call_->take()) return first;
    if (first) continue;  // another thread was quicker
    if (std::all_of(futures.begin(), futures.end(),
                    [](const AnyFuture& future) { return future.call_->taken(); }))
      return std::nullopt;
    if (!timeout) {
      for (const AnyFuture& future : futures) future.call_->check_may_wait();
    }
    std::unique_lock lock(bell->mutex);
    if (!bell->rung.wait_until(lock, until, [&] { return bell->count != seen; })) {
      throw Error(ErrorCode::timeout, "none of " + std::to_string(futures.size()) + " calls ended within " +
                                          std::to_string(timeout->count()) + " ms");
    }
  }
}

}  // namespace lockstep::pool
