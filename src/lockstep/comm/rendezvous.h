// How processes that a launcher started become a group.
#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/communicator_kind.h"
#include "lockstep/comm/launcher.h"
#include "lockstep/comm/patience.h"

namespace lockstep::comm {

/// How ranks become a group. All ranks ask for the same kind.
struct Joining {
  CommunicatorKind kind = CommunicatorKind::auto_;
  Waiting waiting{};  ///< for the ranks to meet; rank 0 tells who is missing, and of the other ranks of a
                      ///< machine the first
};

/// Meets the other ranks at launch.address and gives this rank's side of the group. Blocks until all are
/// there. What ranks tell each other there is sealed with launch.secret (without one see internal/store.h),
/// and what others write is as if it were not there. gloo is bound to launch.interface, else to the address
/// from which this machine reaches launch.address; its own connections are not authenticated. A rank that
/// dies breaks the group within a second, one that is stopped or out of reach within five; it is named.
/// Throws communication when the meeting place or a rank cannot be reached, or a rank does not come in time;
/// invalid_option where ranks that are to share memory cannot.
std::unique_ptr<Communicator> join_group(const Launch& launch, CommunicatorOptions options = {},
                                         const Joining& how = {});

/// Where ranks meet when the launcher itself serves them, so that no rank's end takes it away: a store on the
/// loopback, at a free port, while it lives. Every user of the machine reaches it. Throws communication.
class MeetingPlace {
 public:
  MeetingPlace();
  ~MeetingPlace();
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  const std::string& address() const { return address_; }
  uint16_t port() const { return port_; }
  /// Drawn for these ranks: for their environment (Launch::secret), and for nobody else.
  const std::string& secret() const { return secret_; }

 private:
  struct Server;
  std::string address_;
  uint16_t port_ = 0;
  std::string secret_;
  std::unique_ptr<Server> server_;
};

}  // namespace lockstep::comm
