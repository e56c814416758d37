// How a rank comes to the store at which the ranks of a launch meet.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/comm/internal/meeting_store.h"
#include "lockstep/comm/patience.h"
#include "lockstep/comm/internal/secret_door.h"
#include "lockstep/comm/internal/socket.h"
#include "lockstep/comm/launcher.h"
#include "lockstep/device/failure.h"

namespace lockstep::comm {

/// Where the ranks of a launch meet, as seen from this machine: launch.address, unless it is the name that
/// Slurm has for the first machine, and that is not known here, or known as a loopback (Debian's installer
/// writes "127.0.1.1 NAME" on each machine). Then it is where srun ran or, on the first machine, the address
/// from which it reaches that. Throws communication.
Launch at_meeting_place(Launch launch);

struct OpenStore {
  c10::intrusive_ptr<MeetingStore> store;
  c10::intrusive_ptr<MeetingStore> unsealed;
  std::unique_ptr<SecretDoor> door;  ///< rank 0's, where it gives the secret to the others: kept until they
                                     ///< are all there, and no longer
  /// Says again where the door is, if somebody took that away.
  void keep() const;
  /// For messages: where it is, with a word on strangers that were seen there; and what to do then.
  std::string place(const Launch& launch) const;
  const char* hint() const;
};

/// c10d's store at launch.address, served by the launcher or else by rank 0, as long as that has it; keys are
/// of this launch and attempt. Waits for who serves it. Values are sealed with launch.secret. Where the
/// launch has none and all ranks are on this machine, with one that rank 0 draws and that only processes of
/// its user get; of ranks on several machines without a secret they are not sealed, and whoever reaches the
/// store can write them. Throws communication, and what c10d throws.
OpenStore open_store(const Launch& launch, Patience& patience);

/// For messages: "rank 1 of 2", "rank 1 of 2 on node-b", "10.0.0.1:29500".
std::string name_of_rank(const Launch& launch);
std::string who(const Launch& launch);
std::string place_of(const Launch& launch);

/// "rank 1 of 2 on node-b cannot <what> <place>: ...".
Error cannot(const Launch& launch, const char* what, const std::string& place, const SocketFailure& failure,
             const std::string& hint);

/// Of the ranks of a machine one tells: rank 0, else the first.
Waiting waiting_of(const Launch& launch, Waiting waiting);

/// Runs `work`, whose errors of c10d become ours. Throws communication.
template <class Work>
auto at_meeting(const Launch& launch, const Work& work) {
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
