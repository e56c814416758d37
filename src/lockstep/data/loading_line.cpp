#include "lockstep/data/loading_line.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/share.h"

namespace lockstep::data {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int64_t kPage = 4096;
constexpr uint64_t kMagic = 0x6c6f61646c696e65;  // "loadline"
constexpr auto kPoll = 50us;
constexpr auto kHeadStart = 5ms;     // that loaders have before the trainer decodes a sample itself
constexpr auto kLongestDecode = 2s;  // of a loader; it may have been killed in the middle
constexpr auto kAliveInterval = 200ms;
// After so many samples in a row that no loader has begun they have no head start until one is decoded.
constexpr int64_t kMostMissed = 32;

enum SlotState : uint32_t { kFree, kExpected, kDecoding, kDecoded, kFailed };

int64_t pages(int64_t bytes) { return divided_up(bytes, kPage) * kPage; }

}  // namespace

struct LoadingHeader {
  uint64_t magic = kMagic;
  std::atomic<uint32_t> opened{0};  // twice the number of calls of open; odd while the fields below change
  std::atomic<uint32_t> closed{0};
  std::atomic<int64_t> offset{0}, text_bytes{0}, image_bytes{0}, slots{0};
};

struct LoadingSlot {
  std::atomic<uint32_t> state{kFree};
  int64_t index = 0;
};

/// What one call of open uses: the text, a ring with numbers of slots, the slots, their images.
struct LoadingRegion {
  LoadingRegion(int descriptor, const LoadingHeader& header)
      : text_bytes(header.text_bytes), image_bytes(header.image_bytes), slots(header.slots) {
    const int64_t offset = header.offset;
    ring_size = 4 * slots;
    bytes = size_of(text_bytes, image_bytes, slots);
    struct stat found {};
    if (::fstat(descriptor, &found) != 0 || found.st_size < offset + bytes || text_bytes < 0 ||
        image_bytes < 0 || slots < 0)
      throw Error(ErrorCode::corrupt_data, "the memory in which images are loaded is too short");
    void* mapped =
        ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, offset);
    if (mapped == MAP_FAILED) throw errno_error(errno, "map", "memory in which images are loaded");
    base = static_cast<std::byte*>(mapped);
    head = reinterpret_cast<std::atomic<uint32_t>*>(base + pages(text_bytes));
    tail = head + 1;
    ring = tail + 1;
    slot = reinterpret_cast<LoadingSlot*>(base + pages(text_bytes) + pages((2 + ring_size) * 4));
  }
  LoadingRegion(const LoadingRegion&) = delete;
  LoadingRegion& operator=(const LoadingRegion&) = delete;
  ~LoadingRegion() { ::munmap(base, static_cast<size_t>(bytes)); }

  static int64_t size_of(int64_t text_bytes, int64_t image_bytes, int64_t slots) {
    return pages(text_bytes) + pages((2 + 4 * slots) * 4) +
           pages(slots * static_cast<int64_t>(sizeof(LoadingSlot))) + pages(slots * image_bytes);
  }

  std::span<uint8_t> image(uint32_t number) const {
    return {reinterpret_cast<uint8_t*>(base) + bytes - pages(slots * image_bytes) + number * image_bytes,
            static_cast<size_t>(image_bytes)};
  }

  int64_t text_bytes, image_bytes, slots, ring_size = 0, bytes = 0;
  std::byte* base = nullptr;
  std::atomic<uint32_t>* head = nullptr;  // of the ring: the next number to take
  std::atomic<uint32_t>* tail = nullptr;
  std::atomic<uint32_t>* ring = nullptr;
  LoadingSlot* slot = nullptr;
};

LoadingLine::LoadingLine() : descriptor_(::memfd_create("lockstep-loading", MFD_CLOEXEC)) {
  if (descriptor_ < 0) throw errno_error(errno, "make", "memory in which images are loaded");
  void* mapped = MAP_FAILED;
  if (::ftruncate(descriptor_, kPage) == 0)
    mapped = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) {
    const int reason = errno;
    ::close(descriptor_);
    throw errno_error(reason, "map", "memory in which images are loaded");
  }
  header_ = new (mapped) LoadingHeader;
}

LoadingLine::~LoadingLine() {
  header_->closed = 1;
  ::munmap(header_, kPage);
  ::close(descriptor_);
}

// Each set has memory of its own, because a loader may still write to that of the last one.
void LoadingLine::open(const std::string& text, int64_t image_bytes, int64_t slots) {
  const std::lock_guard lock(mutex_);
  struct stat found {};
  const auto text_bytes = static_cast<int64_t>(text.size());
  const int64_t bytes = LoadingRegion::size_of(text_bytes, image_bytes, slots);
  if (::fstat(descriptor_, &found) != 0 || ::ftruncate(descriptor_, found.st_size + bytes) != 0)
    throw errno_error(errno, "make", "memory in which images are loaded");
  ++header_->opened;
  header_->offset = found.st_size;
  header_->text_bytes = text_bytes;
  header_->image_bytes = image_bytes;
  header_->slots = slots;
  region_ = std::make_shared<LoadingRegion>(descriptor_, *header_);
  std::memcpy(region_->base, text.data(), text.size());
  expected_.clear();
  free_.clear();
  for (int64_t i = slots; i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));
  ++header_->opened;
}

void LoadingLine::expect(std::span<const int64_t> indices) {
  const std::lock_guard lock(mutex_);
  if (region_ == nullptr) return;
  for (const int64_t index : indices) {
    const uint32_t end = *region_->tail;
    if (free_.empty() || end - *region_->head >= static_cast<uint32_t>(region_->ring_size)) return;
    if (!expected_.emplace(index, free_.back()).second) continue;
    const uint32_t number = free_.back();
    free_.pop_back();
    region_->slot[number].index = index;
    region_->slot[number].state = kExpected;
    region_->ring[end % static_cast<uint32_t>(region_->ring_size)] = number;
    *region_->tail = end + 1;
  }
}

bool LoadingLine::take(int64_t index, std::span<uint8_t> destination) {
  std::shared_ptr<LoadingRegion> region;
  uint32_t number = 0;
  bool has_head_start = true;
  {
    const std::lock_guard lock(mutex_);
    const auto found = expected_.find(index);
    if (found == expected_.end()) return false;
    number = found->second;
    region = region_;
    has_head_start = missed_ < kMostMissed;
    expected_.erase(found);  // no other thread waits for it
  }
  std::atomic<uint32_t>& state = region->slot[number].state;
  const auto start = Clock::now();
  uint32_t seen = state;
  while (seen == kExpected || seen == kDecoding) {
    const auto waited = Clock::now() - start;
    if (seen == kExpected && (!has_head_start || waited > kHeadStart)) {
      if (state.compare_exchange_strong(seen, kFree)) break;
      continue;
    }
    if (waited > kLongestDecode) return false;  // and the slot is lost
    std::this_thread::sleep_for(kPoll);
    seen = state;
  }
  const bool is_decoded = seen == kDecoded && destination.size() == region->image(number).size();
  if (is_decoded) std::ranges::copy(region->image(number), destination.begin());
  state = kFree;
  const std::lock_guard lock(mutex_);
  missed_ = is_decoded ? 0 : missed_ + 1;
  taken_ += is_decoded ? 1 : 0;
  if (region == region_) free_.push_back(number);
  return is_decoded;
}

int64_t LoadingLine::taken_count() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

LoadingEnd::LoadingEnd(int descriptor, std::function<bool()> trainer_lives)
    : descriptor_(descriptor), trainer_lives_(std::move(trainer_lives)) {
  void* mapped = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) {
    const int reason = errno;
    ::close(descriptor_);
    throw errno_error(reason, "map", "memory in which images are loaded");
  }
  header_ = static_cast<LoadingHeader*>(mapped);
  if (header_->magic == kMagic) return;
  ::munmap(mapped, kPage);
  ::close(descriptor_);
  throw Error(ErrorCode::corrupt_data, "what a rank gave to its loader is no memory for images");
}

LoadingEnd::~LoadingEnd() {
  ::munmap(header_, kPage);
  ::close(descriptor_);
}

std::optional<std::string> LoadingEnd::next() {
  auto asked = Clock::now();
  while (true) {
    const uint32_t opened = header_->opened;
    if (opened != opened_ && opened % 2 == 0) {
      region_ = std::make_shared<LoadingRegion>(descriptor_, *header_);
      if (header_->opened != opened) continue;
      opened_ = opened;
      return std::string(reinterpret_cast<const char*>(region_->base),
                         static_cast<size_t>(region_->text_bytes));
    }
    if (header_->closed != 0) return std::nullopt;
    if (Clock::now() - asked > kAliveInterval) {
      if (!trainer_lives_()) return std::nullopt;
      asked = Clock::now();
    }
    std::this_thread::sleep_for(10ms);
  }
}

bool LoadingEnd::is_over() const { return header_->closed != 0 || header_->opened != opened_; }

// False if nothing is expected now.
bool LoadingEnd::serve_one(const std::function<void(int64_t, std::span<uint8_t>)>& decode, bool& is_decoded) {
  is_decoded = false;
  uint32_t place = *region_->head;
  if (place == *region_->tail) return false;
  const uint32_t number = region_->ring[place % static_cast<uint32_t>(region_->ring_size)];
  if (!region_->head->compare_exchange_strong(place, place + 1)) return true;
  if (number >= region_->slots) return true;
  LoadingSlot& slot = region_->slot[number];
  uint32_t state = kExpected;
  if (!slot.state.compare_exchange_strong(state, kDecoding)) return true;
  try {
    decode(slot.index, region_->image(number));
    is_decoded = true;
  } catch (const std::exception&) {  // the trainer meets the same error, and says where
  }
  slot.state = is_decoded ? kDecoded : kFailed;
  return true;
}

int64_t LoadingEnd::serve(int64_t threads,
                          const std::function<void(int64_t index, std::span<uint8_t> image)>& decode) {
  std::atomic<int64_t> count = 0;
  std::atomic<bool> is_alone = false;
  const auto work = [&] {
    auto asked = Clock::now();
    while (!is_over() && !is_alone) {
      bool is_decoded = false;
      if (!serve_one(decode, is_decoded)) std::this_thread::sleep_for(4 * kPoll);
      count += is_decoded ? 1 : 0;
      if (Clock::now() - asked < kAliveInterval) continue;
      if (!trainer_lives_()) is_alone = true;
      asked = Clock::now();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int64_t i = 1; i < threads; ++i) workers.emplace_back(work);
    work();
  }
  return count;
}

}  // namespace lockstep::data
