#include "lockstep/data/internal/mapped_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <sys/mman.h>
#include <ucontext.h>

#include "lockstep/base/error.h"
#include "lockstep/data/internal/streamed_copy.h"

namespace lockstep::data {
namespace {

constexpr int64_t kPage = 4096;

// The memory that a thread is reading, and where execution continues if the file no longer has it.
struct Guard {
  const uint8_t* begin;
  const uint8_t* end;
  sigjmp_buf back;
};
constinit thread_local Guard* current_guard = nullptr;

struct sigaction handler_before;

void on_bus_error(int signal, siginfo_t* info, void* context) {
  Guard* guard = current_guard;
  const auto* address = static_cast<const uint8_t*>(info->si_addr);
  if (guard != nullptr && info->si_code > 0 && address >= guard->begin && address < guard->end) {
    ::pthread_sigmask(SIG_SETMASK, &static_cast<const ucontext_t*>(context)->uc_sigmask,
                      nullptr);  // as after a return
    ::siglongjmp(guard->back, 1);
  }
  // Not ours: the instruction runs again and reaches the previous handler.
  ::sigaction(SIGBUS, &handler_before, nullptr);
  if (info->si_code <= 0) ::raise(signal);
}

void watch_bus_errors() {
  static const int set = [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    return ::sigaction(SIGBUS, &action, &handler_before);
  }();
  if (set != 0) throw errno_error(EINVAL, "watch", "signal SIGBUS");
}

}  // namespace

MappedFile::MappedFile(int descriptor, int64_t bytes, const std::filesystem::path& path) : bytes_(bytes) {
  watch_bus_errors();
  void* begin = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ, MAP_SHARED, descriptor, 0);
  if (begin == MAP_FAILED) throw errno_error(errno, "map", path.string());
  begin_ = static_cast<const uint8_t*>(begin);
}

MappedFile::~MappedFile() { ::munmap(const_cast<uint8_t*>(begin_), static_cast<size_t>(bytes_)); }

template <class Work>
bool MappedFile::guarded(Work&& work) const {
  Guard guard{begin_, begin_ + bytes_, {}};
  if (sigsetjmp(guard.back, /*savemask=*/0) != 0) {
    current_guard = nullptr;
    return false;
  }
  current_guard = &guard;
  // The handler reads this variable during `work`, which the compiler does not know.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  work();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  current_guard = nullptr;
  return true;
}

bool MappedFile::copy(int64_t offset, std::span<uint8_t> destination) const {
  return guarded([&] { std::copy_n(begin_ + offset, destination.size(), destination.data()); });
}

bool MappedFile::stream(int64_t offset, std::span<uint8_t> destination) const {
  return guarded([&] { streamed_copy(begin_ + offset, destination); });
}

void MappedFile::enter(int64_t offset, int64_t bytes) const {
  guarded([&] {
    for (int64_t at = offset; at < offset + bytes; at += kPage)
      static_cast<void>(*static_cast<const volatile uint8_t*>(begin_ + at));
  });
}

}  // namespace lockstep::data
