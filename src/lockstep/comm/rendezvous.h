// How processes that a launcher started become a group.
#pragma once

#include <array>
#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/launcher.h"

namespace lockstep::comm {

/// What carries the ranks' words. auto_: memory where all ranks are one user's on one machine, else gloo.
enum class CommunicatorKind { auto_, shared, gloo };
constexpr auto enum_names(CommunicatorKind) { return std::array{"auto", "shared", "gloo"}; }

/// Meets the other ranks at launch.address and gives this rank's side of the group; all ranks ask for the same kind. Blocks until all are there.
/// gloo is bound to launch.interface, else to the address from which this machine reaches launch.address.
/// A rank that dies breaks the group within a second, one that is stopped or out of reach within five; it is named.
/// Throws communication when the meeting place or a rank cannot be reached, or a rank does not come within five minutes; invalid_option where
/// ranks that are to share memory cannot.
std::unique_ptr<Communicator> join_group(const Launch& launch, CommunicatorOptions options = {}, CommunicatorKind kind = CommunicatorKind::auto_);

/// Where ranks meet when the launcher itself serves them, so that no rank's end takes it away: a store on the loopback, at a free port, while it
/// lives. Throws communication.
class MeetingPlace {
 public:
  MeetingPlace();
  ~MeetingPlace();
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  const std::string& address() const { return address_; }
  uint16_t port() const { return port_; }

 private:
  struct Server;
  std::string address_;
  uint16_t port_ = 0;
  std::unique_ptr<Server> server_;
};

}  // namespace lockstep::comm
