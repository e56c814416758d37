// What is new of a sweep to a page that has seen it before: a table of a thousand trials changes by a few
// rows.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>

#include "lockstep/base/json.h"

namespace lockstep::studio {

/// Remembers the hashes of what pages were told last. Any thread.
class SweepNews {
 public:
  /// all: what about_sweep() gives now. seen: the "seen" of the page's last answer; empty: it has none.
  /// Returns {"seen", "same": true} if nothing is new; {"seen", "since": true, "rows": [new ones], ...} with
  /// the other members that are new; or all of it with "seen", where it is not known what the page has, or
  /// something has gone since then.
  Json answer(Json all, const std::string& seen);

 private:
  struct Told {
    std::string seen;
    std::map<std::string, uint64_t> members{};  // hashes of all but the rows
    std::map<int64_t, uint64_t> rows{};         // by their trials
  };
  static Told hashes_of(const Json& all);

  std::mutex mutex_;
  std::list<Told> told_;  // the newest first
};

}  // namespace lockstep::studio
