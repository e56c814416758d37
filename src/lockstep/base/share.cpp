#include "lockstep/base/share.h"

#include <algorithm>
#include <numeric>
#include <ranges>

namespace lockstep {

// Where the part of a load begins, rounded to the nearest item, half up.
int64_t Deal::begin_of(int64_t count, int64_t load) const {
  const int64_t before = std::accumulate(loads.begin(), loads.begin() + load, int64_t{0});
  const int64_t all = std::accumulate(loads.begin() + load, loads.end(), before);
  return (2 * count * before + all) / (2 * all);
}

Range Deal::of_rank(int64_t count, int64_t rank) const {
  if (loads.empty()) return part_of(count, ranks, rank);
  const int64_t each = static_cast<int64_t>(loads.size()) / ranks;
  return {begin_of(count, rank * each), begin_of(count, (rank + 1) * each)};
}

std::vector<int64_t> Deal::parts(int64_t count) const {
  std::vector<int64_t> parts;
  for (int64_t rank = 0; rank < ranks; ++rank) parts.push_back(of_rank(count, rank).count());
  return parts;
}

Range Deal::of_worker(int64_t count, int64_t worker) const {
  if (has_worker_loads()) return {begin_of(count, worker), begin_of(count, worker + 1)};
  const int64_t each = workers_of_rank();
  const Range rank = of_rank(count, worker / each);
  const Range own = part_of(rank.count(), each, worker % each);
  return {rank.begin + own.begin, rank.begin + own.end};
}

int64_t Deal::rank_of(int64_t count, int64_t item) const {
  if (loads.empty()) return owner_of(count, ranks, item);
  const auto all = std::views::iota(int64_t{0}, ranks);
  return *std::ranges::partition_point(all, [&](int64_t rank) { return of_rank(count, rank).end <= item; });
}

int64_t Deal::worker_of(int64_t count, int64_t item) const {
  if (has_worker_loads()) return Deal{workers, workers, loads}.rank_of(count, item);
  const int64_t rank = rank_of(count, item), each = workers_of_rank();
  const Range own = of_rank(count, rank);
  return rank * each + owner_of(own.count(), each, item - own.begin);
}

}  // namespace lockstep
