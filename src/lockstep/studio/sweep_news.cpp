#include "lockstep/studio/sweep_news.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "lockstep/base/hash.h"

namespace lockstep::studio {
namespace {

constexpr size_t kMostTold = 32;  // answers of which pages may ask what is new
constexpr const char* kRows = "rows";

uint64_t hash_of_json(const Json& json) {
  return hash_of(std::string_view(json.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

template <class Key>
bool has_lost(const std::map<Key, uint64_t>& had, const std::map<Key, uint64_t>& now) {
  return std::ranges::any_of(had, [&](const auto& one) { return !now.contains(one.first); });
}

template <class Key>
bool is_new(const Key& key, const std::map<Key, uint64_t>& had, const std::map<Key, uint64_t>& now) {
  const auto found = had.find(key);
  return found == had.end() || found->second != now.at(key);
}

}  // namespace

SweepNews::Told SweepNews::hashes_of(const Json& all) {
  Told told;
  std::string text;
  for (const auto& [name, member] : all.items()) {
    if (name == kRows) continue;
    text += as_hex(told.members[name] = hash_of_json(member));
  }
  for (const Json& row : all[kRows])
    text += as_hex(told.rows[row["trial"].get<int64_t>()] = hash_of_json(row));
  told.seen = as_hex(hash_of(std::string_view(text)));
  return told;
}

Json SweepNews::answer(Json all, const std::string& seen) {
  Told now = hashes_of(all);
  if (now.seen == seen) return {{"seen", seen}, {"same", true}};
  std::optional<Told> had;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(told_, seen, &Told::seen);
    if (found != told_.end()) had = *found;
    told_.remove_if([&](const Told& one) { return one.seen == now.seen; });
    told_.push_front(now);
    if (told_.size() > kMostTold) told_.pop_back();
  }
  if (had && !has_lost(had->members, now.members) && !has_lost(had->rows, now.rows)) {
    Json news{{"since", true}, {kRows, Json::array()}};
    for (const auto& [name, member] : all.items()) {
      if (name != kRows && is_new(name, had->members, now.members)) news[name] = member;
    }
    for (Json& row : all[kRows]) {
      if (is_new(row["trial"].get<int64_t>(), had->rows, now.rows)) news[kRows].push_back(std::move(row));
    }
    all = std::move(news);
  }
  all["seen"] = now.seen;
  return all;
}

}  // namespace lockstep::studio
