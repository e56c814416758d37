#include "lockstep/comm/buckets.h"

namespace lockstep::comm {
namespace {

constexpr int64_t kLeastElements = int64_t{1} << 18;  // 1 MiB in float, a chunk of the shared memory: below it a barrier costs more than the bytes

}  // namespace

std::vector<Range> exchange_buckets(const Communicator& comm, const std::vector<int64_t>& starts, int64_t count) {
  std::vector<Range> buckets;
  int64_t end = count;
  for (auto start = starts.rbegin(); start != starts.rend() && comm.size() > 1; ++start) {
    if (end - *start < kLeastElements || *start < kLeastElements) continue;
    buckets.push_back({*start, end});
    end = *start;
  }
  buckets.push_back({0, end});
  return buckets;
}

}  // namespace lockstep::comm
