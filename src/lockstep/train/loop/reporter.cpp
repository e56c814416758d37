#include "lockstep/train/loop/reporter.h"

#include "lockstep/base/thread_name.h"

namespace lockstep::train {

Reporter::Reporter(std::unique_ptr<record::EventLog> log, std::vector<std::unique_ptr<view::View>> views,
                   int64_t attempt)
    : log_(std::move(log)), views_(std::move(views)), attempt_(attempt), thread_([this] { work(); }) {}

Reporter::~Reporter() { queue_.close(); }

void Reporter::say(record::Event event) {
  event.time = now_seconds();
  event.attempt = attempt_;
  queue_.push(std::move(event));
}

void Reporter::finish() {
  queue_.close();
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Reporter::work() {
  name_this_thread("run events");
  const auto guarded = [&](auto&& act) {
    try {
      act();
    } catch (...) {
      if (!error_) error_ = std::current_exception();
    }
  };
  while (auto event = queue_.pop()) {
    if (log_) guarded([&] { log_->write(*event); });
    for (const auto& view : views_) guarded([&] { view->show(*event); });
  }
  for (const auto& view : views_) guarded([&] { view->finish(); });
}

}  // namespace lockstep::train
