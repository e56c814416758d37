// The layout of a group's shared memory. Only lock-free atomics and plain bytes: a rank may die between any
// two instructions and must leave nothing locked.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep::comm {

/// A rank's buffer: so large that its two barriers cost little, so small that it stays in a core's
/// second-level cache.
inline constexpr int64_t kChunkBytes = int64_t{1} << 20;
inline constexpr uint64_t kGroupMagic = 0x6c6f636b73746571;
inline constexpr size_t kMostDimensions = 16;
inline constexpr size_t kMostReasonBytes = 1000;
inline constexpr uint32_t kMostReasons = 8;

/// The call that a rank announces. Ranks that announce different calls have diverged.
struct Announcement {
  uint32_t collective = 0;
  int32_t type = 0;
  int32_t reduction = 0;
  int32_t root = 0;
  int64_t elements = 0;
  uint64_t dimensions = 0;
  std::array<int64_t, kMostDimensions> sizes{};
};

struct alignas(64) RankSlot {
  std::atomic<uint64_t> arrivals{0};  ///< barriers that this rank has come to
  std::atomic<uint32_t> left{0};      ///< 1 when it makes no more calls: its process may end
  std::atomic<uint32_t> beats{0};     ///< grows while its process runs; 0 until it watches the others
  std::array<Announcement, 2>
      announcements{};  ///< one for each half, written before a barrier and read after it
};

struct alignas(64) GroupHeader {
  uint64_t magic = kGroupMagic;
  int64_t size = 0;
  int64_t chunk_bytes = kChunkBytes;
  /// The word that ranks sleep on: bit 0 says that the group is broken, the others count barriers.
  alignas(64) std::atomic<uint32_t> word{0};
  std::atomic<uint32_t> arrived{0};
  /// Each rank that breaks the group writes its reason to its own place, so that a rank that dies while it
  /// writes does not prevent others from reporting.
  std::atomic<uint32_t> reasons_taken{0};
  std::atomic<uint32_t> reason_shown{0};  ///< place + 1 of the first reason that was written completely
  std::array<std::array<char, kMostReasonBytes>, kMostReasons> reasons{};
};
inline constexpr uint32_t kBroken = 1;
inline constexpr uint32_t kOneBarrier = 2;

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

/// Sleeps until the word is no longer `value`, until a wake, or for `milliseconds`.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t value, int64_t milliseconds);
void futex_wake_all(const std::atomic<uint32_t>& word);

}  // namespace lockstep::comm
