#include "lockstep/pool/internal/pool_trace.h"

#include <chrono>
#include <cstdio>
#include <unistd.h>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/pool/internal/process.h"

namespace lockstep::pool {
namespace {

constexpr std::chrono::seconds kTraceInterval{1};

jobs::PoolRecord record_of(const Pool& pool, const std::string& profile) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.program = program_path(),
          .profile = profile,
          .kind = enum_names(pool.kind())[static_cast<size_t>(pool.kind())],
          .host = host_name(),
          .process = ::getpid(),
          .opened = std::chrono::duration<double>(now).count(),
          .workers = pool.workers()};
}

}  // namespace

PoolTrace::PoolTrace(const Pool& pool, const std::string& profile) {
  const std::filesystem::path folder = jobs::pools_folder();
  if (folder.empty()) return;  // a user without a home folder has no list of pools
  record_ = std::make_unique<jobs::KeptRecord>(folder, record_of(pool, profile));
  thread_ = std::thread([this, pool] { follow(pool); });
}

PoolTrace::~PoolTrace() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  ends_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PoolTrace::follow(Pool pool) {
  try {
    std::unique_lock lock(mutex_);
    while (!ends_.wait_for(lock, kTraceInterval, [this] { return is_ending_; }) && pool.is_open()) {
      if (record_->is_asked_to_close()) {
        std::fprintf(stderr, "the pool is closed, as lockstep pool close asked for\n");
        pool.close();
        break;
      }
      record_->set_workers(pool.workers());
    }
  } catch (const std::exception& error) {  // the pool works on without it
    std::fprintf(stderr, "warning: lockstep pools does not show this pool any more: %s\n", error.what());
  }
  record_.reset();
}

}  // namespace lockstep::pool
