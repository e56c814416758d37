#include "lockstep/data/order.h"

#include <numeric>

#include "lockstep/base/seed.h"

namespace lockstep::data {

std::vector<int64_t> Order::of_epoch(int64_t count, int64_t epoch) const {
  if (shuffle == Shuffle::never) {
    std::vector<int64_t> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), int64_t{0});
    return order;
  }
  const int64_t drawn_for = shuffle == Shuffle::once ? 0 : epoch;
  return permutation(count, seed_of({static_cast<uint64_t>(seed), static_cast<uint64_t>(drawn_for)}));
}

}  // namespace lockstep::data
