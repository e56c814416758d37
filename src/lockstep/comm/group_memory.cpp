#include "lockstep/comm/group_memory.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/futex.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/internal/group_layout.h"

namespace lockstep::comm {
namespace {

constexpr size_t kPage = 4096;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW |
                       F_SEAL_SEAL;  // so that no process can truncate it while another one uses it

size_t control_bytes(int64_t size) {
  const size_t bytes = sizeof(GroupHeader) + static_cast<size_t>(size) * sizeof(RankSlot);
  return (bytes + kPage - 1) / kPage * kPage;
}

size_t bytes_of(int64_t size) { return control_bytes(size) + static_cast<size_t>(size) * 2 * kChunkBytes; }

[[noreturn]] void refuse(int descriptor, const std::string& why) {
  ::close(descriptor);
  throw Error(ErrorCode::corrupt_data, "the shared memory of a group cannot be used: " + why);
}

std::byte* map(int descriptor, size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (base == MAP_FAILED) {
    const int reason = errno;
    ::close(descriptor);
    throw errno_error(reason, "map", "shared memory of a group");
  }
  return static_cast<std::byte*>(base);
}

}  // namespace

void futex_wait(const std::atomic<uint32_t>& word, uint32_t value, int64_t milliseconds) {
  const timespec slice{.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &slice, nullptr,
            0);  // it may return for any reason: callers check again
}

void futex_wake_all(const std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::shared_ptr<GroupMemory> GroupMemory::make(int64_t size) {
  if (size < 1)
    throw Error(ErrorCode::invalid_option, "a group cannot have " + std::to_string(size) + " ranks");
  const int descriptor = ::memfd_create("lockstep-group", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) throw errno_error(errno, "make", "shared memory of a group");
  const size_t bytes = bytes_of(size);
  if (::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(descriptor, F_ADD_SEALS, kSeals) != 0) {
    const int reason = errno;
    ::close(descriptor);
    throw errno_error(reason, "size", "shared memory of a group");
  }
  std::byte* base = map(descriptor, bytes);
  auto* header = new (base) GroupHeader;
  header->size = size;
  for (int64_t rank = 0; rank < size; ++rank)
    new (base + sizeof(GroupHeader) + static_cast<size_t>(rank) * sizeof(RankSlot)) RankSlot;
  return std::shared_ptr<GroupMemory>(new GroupMemory(descriptor, base, bytes));
}

std::shared_ptr<GroupMemory> GroupMemory::open(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) refuse(descriptor, std::strerror(errno));
  if (status.st_uid != ::geteuid()) refuse(descriptor, "it is another user's");
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    refuse(descriptor, "it is not sealed, so it could be cut short");
  const auto bytes = static_cast<size_t>(status.st_size);
  if (bytes < bytes_of(1)) refuse(descriptor, "it has " + std::to_string(bytes) + " bytes");
  std::byte* base = map(descriptor, bytes);
  const auto* header = reinterpret_cast<const GroupHeader*>(base);
  const bool good = header->magic == kGroupMagic && header->chunk_bytes == kChunkBytes && header->size >= 1 &&
                    header->size <= static_cast<int64_t>(bytes) && bytes_of(header->size) == bytes;
  if (!good) {
    ::munmap(base, bytes);
    refuse(descriptor, "it is not a group's, or of another version of Lockstep");
  }
  return std::shared_ptr<GroupMemory>(new GroupMemory(descriptor, base, bytes));
}

GroupMemory::~GroupMemory() {
  ::munmap(base_, bytes_);
  ::close(descriptor_);
}

GroupHeader& GroupMemory::header() const { return *reinterpret_cast<GroupHeader*>(base_); }

int64_t GroupMemory::size() const { return header().size; }

RankSlot& GroupMemory::slot(int64_t rank) const {
  return reinterpret_cast<RankSlot*>(base_ + sizeof(GroupHeader))[rank];
}

std::byte* GroupMemory::buffer(int64_t rank, int64_t half) const {
  return base_ + control_bytes(size()) + static_cast<size_t>(rank * 2 + half) * kChunkBytes;
}

void GroupMemory::fail(const std::string& reason) {
  GroupHeader& group = header();
  const uint32_t place = group.reasons_taken.fetch_add(1);
  if (place < kMostReasons) {
    std::copy_n(reason.data(), std::min(reason.size(), kMostReasonBytes - 1), group.reasons[place].data());
    uint32_t none = 0;
    group.reason_shown.compare_exchange_strong(none, place + 1, std::memory_order_acq_rel);
  }
  group.word.fetch_or(kBroken, std::memory_order_acq_rel);
  futex_wake_all(group.word);
}

std::string GroupMemory::failure() const {
  const GroupHeader& group = header();
  if ((group.word.load(std::memory_order_acquire) & kBroken) == 0) return {};
  const uint32_t shown = group.reason_shown.load(std::memory_order_acquire);
  if (shown == 0) return "another rank failed";
  const auto& reason = group.reasons[shown - 1];
  return {reason.data(), ::strnlen(reason.data(), kMostReasonBytes)};
}

}  // namespace lockstep::comm
