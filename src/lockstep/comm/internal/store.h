// How a rank reaches the store at which the ranks of a launch meet.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/internal/meeting_store.h"
#include "lockstep/comm/patience.h"
#include "lockstep/comm/internal/secret_door.h"
#include "lockstep/comm/internal/socket.h"
#include "lockstep/launch/launcher.h"
#include "lockstep/device/failure.h"

namespace lockstep::comm {

/// The address where the ranks of a launch meet, as seen from this machine. It is launch.address, unless that
/// is Slurm's name of the first machine and is unknown here, or known as a loopback (Debian's installer
/// writes "127.0.1.1 NAME" on each machine). Then it is the machine where srun ran or, on the first machine,
/// the address from which it reaches that one. Throws communication.
launch::Launch at_meeting_place(launch::Launch launch);

struct OpenStore {
  c10::intrusive_ptr<MeetingStore> store;
  c10::intrusive_ptr<MeetingStore> unsealed;
  /// Rank 0's, where it gives the secret to the others; kept until all have it.
  std::unique_ptr<SecretDoor> door;
  /// Writes the name of the door again if it was removed.
  void keep() const;
  /// For messages: the place, with a note on strangers seen there; and a hint.
  std::string place(const launch::Launch& launch) const;
  const char* hint() const;
};

/// c10d's store at launch.address, served by the launcher or by rank 0 for as long as rank 0 has it. Keys
/// belong to this launch and attempt. Waits for the server. Values are sealed with launch.secret. If the
/// launch has no secret and all ranks are on this machine, rank 0 draws one that only processes of its user
/// get. Between ranks on several machines without a secret, values are not sealed, and anybody who reaches
/// the store can write them. Throws communication, and what c10d throws.
OpenStore open_store(const launch::Launch& launch, Patience& patience);

/// For messages: "rank 1 of 2", "rank 1 of 2 on node-b", "10.0.0.1:29500".
std::string name_of_rank(const launch::Launch& launch);
std::string who(const launch::Launch& launch);
std::string place_of(const launch::Launch& launch);

/// "rank 1 of 2 on node-b cannot <what> <place>: ...".
Error cannot(const launch::Launch& launch, const char* what, const std::string& place,
             const SocketFailure& failure, const std::string& hint);

/// One rank of each machine reports: rank 0, else the machine's first rank.
Waiting waiting_of(const launch::Launch& launch, Waiting waiting);

/// Runs `work` and translates c10d's errors into ours. Throws communication.
template <class Work>
auto at_meeting(const launch::Launch& launch, const Work& work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (...) {
    throw Error(ErrorCode::communication,
                who(launch) + " cannot meet the others at " + place_of(launch) + ": " +
                    device::error_of(std::current_exception()).message(),
                kMeetingHint);
  }
}

}  // namespace lockstep::comm
