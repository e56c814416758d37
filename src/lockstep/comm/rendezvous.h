// How processes that a launcher started become a group.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lockstep/base/descriptor.h"
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
  bool loads = false;  ///< this process is no rank: it loads data for one of its machine
  int line = -1;       ///< of a rank: an open file that it shares with those that load data for it; -1: none
};

/// What became of a process of a launcher.
struct JoinedProcess {
  std::unique_ptr<Communicator> group{};  ///< of the ranks; null for a process that loads data
  launch::Launch launch{};                ///< of a rank: its place among the ranks
  std::vector<int64_t> loaders{};         ///< the launcher's numbers of the processes that load data
  bool has_loaders = false;               ///< some of them load for this rank
  Descriptor line{};                      ///< of a process that loads data: its rank's file
  int64_t rank = -1;                      ///< of a process that loads data: the rank that it loads for
  pid_t rank_process = -1;                ///< the same one's process
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

/// The same for processes of which some may only load data for ranks of their machine; `launch` counts all.
/// Each loads for one rank, in turn. Throws device if there is no rank on the machine of one.
JoinedProcess join_processes(const launch::Launch& launch, CommunicatorOptions options, const Joining& how);

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
