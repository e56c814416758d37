// How processes that a launcher started become a group.
#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/communicator_kind.h"
#include "lockstep/launch/launcher.h"
#include "lockstep/comm/patience.h"

namespace lockstep::comm {

/// How ranks become a group. All ranks ask for the same kind.
struct Joining {
  CommunicatorKind kind = CommunicatorKind::auto_;
  /// For the ranks to meet; rank 0 reports who is missing, and so does the first other rank of a machine.
  Waiting waiting{};
};

/// Meets the other ranks at launch.address and returns this rank's side of the group. Blocks until all are
/// there. What ranks tell each other there is sealed with launch.secret (without a secret see
/// internal/store.h), and what other programs write is ignored. gloo is bound to launch.interface, else to
/// the address from which this machine reaches launch.address; its own connections are not authenticated. A
/// rank that dies breaks the group within a second, and a rank that is stopped or unreachable within five
/// seconds; the error names it. Throws communication when the meeting place or a rank cannot be reached or a
/// rank does not come in time; invalid_option where ranks must share memory and cannot.
std::unique_ptr<Communicator> join_group(const launch::Launch& launch, CommunicatorOptions options = {},
                                         const Joining& how = {});

/// The meeting place that a launcher serves, so that the end of a rank does not remove it: a store at an
/// address of this machine and a free port, while this object lives. Everybody who reaches the address can
/// reach it. Throws communication.
class MeetingPlace {
 public:
  explicit MeetingPlace(std::string address = "127.0.0.1");
  ~MeetingPlace();
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  const std::string& address() const { return address_; }
  uint16_t port() const { return port_; }
  /// Drawn for these ranks and passed only to them, in their environment (launch::Launch::secret).
  const std::string& secret() const { return secret_; }

 private:
  struct Server;
  std::string address_;
  uint16_t port_ = 0;
  std::string secret_;
  std::unique_ptr<Server> server_;
};

}  // namespace lockstep::comm
