#include "lockstep/comm/buckets.h"

#include <algorithm>
#include <array>
#include <limits>

#include <ATen/Functions.h>

#include "lockstep/base/seconds.h"

namespace lockstep::comm {
namespace {

constexpr int64_t kSmallest = int64_t{1} << 14, kLargest = int64_t{1} << 20;
constexpr double kMostOverBest = 1.25;  // of the cost of an element

// The time of one exchange on the slowest rank.
double seconds_of_exchange(Communicator& comm, const at::TensorOptions& kind, int64_t count) {
  constexpr size_t kRounds = 3;
  const Share share = comm.share();
  const std::vector<Node> nodes{{{share.rank, share.rank + 1}, at::zeros({count}, kind)}};
  comm.reduce_tree(nodes, share.size);  // the first exchange touches new memory
  std::array<double, kRounds> seconds{};
  for (double& one : seconds) {
    comm.barrier();
    const auto start = std::chrono::steady_clock::now();
    comm.reduce_tree(nodes, share.size);
    one = seconds_since(start);
  }
  return comm.all_reduce(*std::min_element(seconds.begin(), seconds.end()), Reduction::max);
}

}  // namespace

int64_t measure_bucket(Communicator& comm, const at::TensorOptions& kind, int64_t count) {
  if (comm.size() == 1 || count < 2 * kSmallest) return count;
  double cost = std::numeric_limits<double>::infinity();
  int64_t size = kSmallest;
  for (int64_t larger = kSmallest; larger <= std::min(kLargest, count); larger *= 4) {
    const double of_larger = seconds_of_exchange(comm, kind, larger) / static_cast<double>(larger);
    if (cost <= kMostOverBest * of_larger) break;
    size = larger;
    cost = of_larger;
  }
  return size;
}

std::vector<Range> cut_buckets(const std::vector<int64_t>& starts, int64_t count, int64_t least) {
  std::vector<Range> buckets;
  int64_t end = count;
  for (auto start = starts.rbegin(); start != starts.rend(); ++start) {
    if (end - *start < least || *start < least) continue;
    buckets.push_back({*start, end});
    end = *start;
  }
  buckets.push_back({0, end});
  return buckets;
}

}  // namespace lockstep::comm
