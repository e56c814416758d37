#include "lockstep/train/reporter.h"

#include <chrono>
#include <fstream>
#include <unistd.h>

#include "lockstep/base/text.h"

namespace lockstep::train {

Reporter::Reporter(std::unique_ptr<io::EventLog> log, std::vector<std::unique_ptr<view::View>> views, int64_t attempt)
    : log_(std::move(log)), views_(std::move(views)), attempt_(attempt), thread_([this] { work(); }) {}

Reporter::~Reporter() {
  queue_.close();
}

void Reporter::say(io::Event event) {
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

double now_seconds() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

double process_seconds() {
  // Field 22 of /proc/self/stat, counted after the program's name, which may hold spaces: clock ticks since boot.
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const auto fields = split(std::string_view(line).substr(std::min(line.size(), line.rfind(')') + 2)), ' ');
  timespec boot{};
  clock_gettime(CLOCK_BOOTTIME, &boot);
  if (fields.size() < 20) return 0;
  return static_cast<double>(boot.tv_sec) + static_cast<double>(boot.tv_nsec) * 1e-9 - std::atof(fields[19].c_str()) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace lockstep::train
