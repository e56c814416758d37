#include "lockstep/base/seed.h"

#include <numeric>
#include <utility>

namespace lockstep {
namespace {

uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

}  // namespace

uint64_t seed_of(std::initializer_list<uint64_t> parts) {
  uint64_t state = kGolden * parts.size();
  for (const uint64_t part : parts) state = mixed(state + kGolden + mixed(part + kGolden));
  return state;
}

uint64_t Random::next() {
  state_ += kGolden;
  return mixed(state_);
}

uint64_t Random::below(uint64_t limit) {
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(next()) * limit;
  if (static_cast<uint64_t>(product) < limit) {
    const uint64_t threshold = -limit % limit;
    while (static_cast<uint64_t>(product) < threshold) product = static_cast<Wide>(next()) * limit;
  }
  return static_cast<uint64_t>(product >> 64);
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

std::vector<int64_t> permutation(int64_t count, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  Random random(seed);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace lockstep
