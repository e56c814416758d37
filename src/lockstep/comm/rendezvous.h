// How processes that a launcher started become a group.
#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/launcher.h"

namespace lockstep::comm {

/// Meets the other ranks at launch.address and gives this rank's side of the group. Ranks of one user on one machine share memory; a rank among
/// them that dies breaks the group within a second, and is named. Blocks until all ranks are there.
/// Throws communication when the meeting place cannot be reached or opened, or a rank does not come within five minutes.
std::unique_ptr<Communicator> join_group(const Launch& launch, CommunicatorOptions options = {});

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
