// Ranks meet at a key-value store: c10d's TCPStore, so that torchrun's own can be used. It accepts every
// connection.
#include "lockstep/comm/internal/store.h"

#include <cerrno>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/host.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/comm/internal/socket.h"

namespace lockstep::comm {
namespace {

using TcpStore = c10::intrusive_ptr<c10d::TCPStore>;

constexpr std::chrono::milliseconds kTry{3000};
constexpr std::chrono::milliseconds kAnswer{
    10'000};  // of a store that answers; longer waits are repeated requests
constexpr const char* kDoor = "door";

const char* server_of(const launch::Launch& launch) { return launch.agent_store ? "the launcher" : "rank 0"; }

TcpStore serve(const launch::Launch& launch) {
  try {
    const c10d::TCPStoreOptions options{.port = launch.port,
                                        .isServer = true,
                                        .waitWorkers = false,
                                        .masterListenFd = listen_at(launch.address, launch.port).release()};
    return c10::make_intrusive<c10d::TCPStore>(launch.address, options);
  } catch (const SocketFailure& failure) {
    throw cannot(launch, "listen at", place_of(launch), failure,
                 failure.reason == EADDRINUSE ? "another group may use this MASTER_PORT; choose another one"
                                              : "MASTER_ADDR is to be a name or address of rank 0's machine");
  }
}

TcpStore reach(const launch::Launch& launch, Patience& patience) {
  while (true) {
    std::string why;
    try {
      connect_to(launch.address, launch.port, std::min(patience.rest(), kTry));
      return c10::make_intrusive<c10d::TCPStore>(
          launch.address,
          c10d::TCPStoreOptions{.port = launch.port, .waitWorkers = false, .timeout = patience.rest()});
    } catch (const SocketFailure& failure) {
      why = std::string(server_of(launch)) + " at " + place_of(launch) + ": " + failure.why;
    }
    if (patience.is_over())
      throw Error(ErrorCode::communication,
                  who(launch) + " gave up after " + patience.limit_text() + " of waiting for " + why,
                  kMeetingHint);
    patience.sleep([&] { return name_of_rank(launch) + " waits for " + why; });
  }
}

// Ranks of one launch that are all on this machine can ask the kernel which user each process belongs to.
bool are_on_one_machine(const launch::Launch& launch) {
  // Decided from what all ranks are told alike, because a name may lead elsewhere on each machine.
  return launch.size == launch.local_size || launch.address == "localhost" || is_loopback(launch.address);
}

Secret secret_from_rank_0(MeetingStore& unsealed, const launch::Launch& launch, Patience& patience) {
  while (true) {
    std::string name = unsealed.find(kDoor).value_or("");
    if (!is_door(name)) name.clear();
    if (!name.empty()) {
      if (const auto secret = ask_at_door(name)) return *secret;
    }
    const std::string why =
        "rank 0 at " + place_of(launch) +
        (name.empty() ? "" : ": no process of the same user on this machine answers as rank 0");
    if (patience.is_over())
      throw Error(ErrorCode::communication,
                  who(launch) + " gave up after " + patience.limit_text() + " of waiting for " + why,
                  name.empty() ? kMeetingHint : kSecretHint);
    patience.sleep([&] { return name_of_rank(launch) + " waits for " + why; });
  }
}

}  // namespace

Error cannot(const launch::Launch& launch, const char* what, const std::string& place,
             const SocketFailure& failure, const std::string& hint) {
  return Error(ErrorCode::communication, who(launch) + " cannot " + what + " " + place + ": " + failure.why,
               hint);
}

std::string name_of_rank(const launch::Launch& launch) {
  return "rank " + std::to_string(launch.rank) + " of " + std::to_string(launch.size);
}

std::string who(const launch::Launch& launch) { return name_of_rank(launch) + " on " + host_name(); }

std::string place_of(const launch::Launch& launch) {
  return launch.address + ":" + std::to_string(launch.port);
}

launch::Launch at_meeting_place(launch::Launch launch) {
  if (launch.submitter.empty()) return launch;
  const std::optional<std::string> known = address_of_name(launch.address);
  if (known && !is_loopback(*known)) return launch;
  try {
    launch.address =
        known || launch.rank == 0 ? own_address_towards(launch.submitter, launch.port) : launch.submitter;
  } catch (const SocketFailure& failure) {
    throw cannot(launch, "reach", launch.submitter + ", where srun ran", failure,
                 "set MASTER_ADDR to a name or address of rank 0's machine");
  }
  return launch;
}

void OpenStore::keep() const {
  if (door) unsealed->keep(kDoor, door->name());
}

Waiting waiting_of(const launch::Launch& launch, Waiting waiting) {
  if (launch.rank > 0 && launch.local_rank > 0) waiting.tell = {};
  return waiting;
}

std::string OpenStore::place(const launch::Launch& launch) const {
  std::string place = place_of(launch);
  if (store->has_seen_strangers()) place.append("; ").append(kStrangers);
  return place;
}

const char* OpenStore::hint() const { return store->has_seen_strangers() ? kSecretHint : kMeetingHint; }

OpenStore open_store(const launch::Launch& launch, Patience& patience) {
  const TcpStore store = launch.rank == 0 && !launch.agent_store ? serve(launch) : reach(launch, patience);
  store->setTimeout(kAnswer);
  // Includes the port, so that what the ranks of one launch have sealed is invalid at the meeting place of
  // another.
  const std::string prefix =
      "lockstep/" + std::to_string(launch.port) + "/" + std::to_string(launch.attempt) + "/";
  OpenStore open{.store = {},
                 .unsealed = c10::make_intrusive<MeetingStore>(store, prefix, std::nullopt, patience.limit()),
                 .door = {}};
  std::optional<Secret> secret;
  if (!launch.secret.empty()) {
    secret = secret_of(launch.secret);
  } else if (launch.size > 1 && are_on_one_machine(launch)) {
    secret = launch.rank == 0 ? secret_of(random_hex(sizeof(Secret)))
                              : secret_from_rank_0(*open.unsealed, launch, patience);
    if (launch.rank == 0) open.door = std::make_unique<SecretDoor>(*secret);
  }
  open.keep();
  open.store = c10::make_intrusive<MeetingStore>(store, prefix, secret, patience.limit());
  return open;
}

}  // namespace lockstep::comm
