#include "lockstep/cli/bounded_ending.h"

#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/cli/failure.h"
#include "lockstep/device/failure.h"
#include "lockstep/jobs/attempt_error.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::seconds kEndingLimit{8};

// Nothing of the process may be used by then but what `tell` holds.
void end_in_time(int status, std::function<void()> tell) {
  std::fflush(nullptr);
  std::thread([status, tell = std::move(tell)] {
    std::this_thread::sleep_for(kEndingLimit);
    tell();
    const std::string text = "lockstep: the process did not end within " +
                             std::to_string(kEndingLimit.count()) + " s after its work, and ends now\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    ::_exit(status);
  }).detach();
}

}  // namespace

void bound_ending(int status) {
  end_in_time(status, [] {});
}

void bound_ending(const Call& call, const std::exception_ptr& failure) {
  const Error error = as_error(failure, device::error_of);
  const bool is_lost = error.code() == ErrorCode::cancelled;
  end_in_time(is_lost ? call.launch->lost_status : exit_status(error.code()), [error, is_lost] {
    const std::string text = failure_text(error);
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (!is_lost) jobs::leave_error(error);
  });
}

}  // namespace lockstep::cli
