// How ranks introduce themselves when they meet.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/comm/internal/store.h"
#include "lockstep/comm/rendezvous.h"

namespace lockstep::comm {

/// A rank's machine and address for the others. The reason for a missing address matters only where an
/// address is needed.
Json introduction(const launch::Launch& launch, CommunicatorKind kind);

/// Null if it is not an introduction: any program may have written it.
Json introduction_in(const std::string& text);

/// What rank 0 has read from all ranks.
struct Roster {
  /// Names the group, so that keys of another or an earlier group are not taken for this one's.
  std::string session;
  std::vector<std::string> ranks;  ///< introductions, in rank order
};
std::string text_of(const Roster& roster);
/// Empty if it is not a roster.
Roster roster_in(const std::string& text);

struct Met {
  std::string session;
  std::vector<Json> ranks;
};

/// Waits until all ranks have introduced themselves and know all others; reports who is missing. Each
/// introduction has a random number, and a rank accepts only a roster that contains its own. So nothing that
/// was written earlier to the same store is accepted. Throws communication when ranks are still missing at
/// the end of the patience, and when something introduces itself as no rank of this version does.
Met meet(const OpenStore& open, const launch::Launch& launch, const Json& own, Patience& patience);

std::string name_of(size_t rank, const Json& said);

}  // namespace lockstep::comm
