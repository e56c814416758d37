#include "lockstep/record/difference.h"

#include <map>

namespace lockstep::record {
namespace {

// If several ranks logged a hash, the lowest rank's is used.
std::map<int64_t, std::string> hashes_of(const std::vector<Event>& events) {
  std::map<int64_t, std::pair<int64_t, std::string>> ranked;
  for (const Event& event : events) {
    if (event.kind != "hash") continue;
    const auto [place, fresh] = ranked.try_emplace(event.step, event.rank, text(event, "weights"));
    if (!fresh && event.rank <= place->second.first) place->second = {event.rank, text(event, "weights")};
  }
  std::map<int64_t, std::string> hashes;
  for (auto& [step, entry] : ranked) hashes[step] = std::move(entry.second);
  return hashes;
}

}  // namespace

std::optional<Difference> first_difference(const std::vector<Event>& events_a,
                                           const std::vector<Event>& events_b) {
  const auto hashes_b = hashes_of(events_b);
  int64_t last_equal_step = 0;
  for (const auto& [step, hash_a] : hashes_of(events_a)) {
    const auto found = hashes_b.find(step);
    if (found == hashes_b.end()) continue;
    if (found->second != hash_a) return Difference{step, last_equal_step, hash_a, found->second};
    last_equal_step = step;
  }
  return std::nullopt;
}

int64_t common_hash_steps(const std::vector<Event>& events_a, const std::vector<Event>& events_b) {
  const auto hashes_b = hashes_of(events_b);
  int64_t count = 0;
  for (const auto& entry : hashes_of(events_a)) count += static_cast<int64_t>(hashes_b.count(entry.first));
  return count;
}

}  // namespace lockstep::record
