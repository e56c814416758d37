// What ranks say of themselves when they meet.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/comm/internal/store.h"
#include "lockstep/comm/rendezvous.h"

namespace lockstep::comm {

/// A rank's machine and address as the others are told. Why it has no address matters only where one is
/// needed.
Json introduction(const Launch& launch, CommunicatorKind kind);

/// Null where it is none: any program may have written it.
Json introduction_in(const std::string& text);

/// What rank 0 has read of all ranks.
struct Roster {
  std::string session;  ///< names the group: keys of another one, or of one before it, are not this one's
  std::vector<std::string> ranks;  ///< introductions, in rank order
};
std::string text_of(const Roster& roster);
/// No ranks where it is none.
Roster roster_in(const std::string& text);

struct Met {
  std::string session;
  std::vector<Json> ranks;
};

/// Waits until all ranks have said who they are and know it of all others; tells who is missing. Each
/// introduction has a random number, and a rank takes only a roster with its own in it, so nothing that was
/// said before in the same store is taken for new. Throws communication: when ranks are still missing at the
/// end of the patience, and where one introduces itself as no rank of ours does.
Met meet(const OpenStore& open, const Launch& launch, const Json& own, Patience& patience);

std::string name_of(size_t rank, const Json& said);

}  // namespace lockstep::comm
