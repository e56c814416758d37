// Ranks publish their addresses in the store where they meet, and connect in the way that all of them can
// use.
#include "lockstep/comm/rendezvous.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/json.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/internal/gloo_communicator.h"
#include "lockstep/comm/internal/introductions.h"
#include "lockstep/comm/internal/peer_watch.h"
#include "lockstep/comm/internal/socket.h"
#include "lockstep/comm/internal/store.h"
#include "lockstep/device/failure.h"

namespace lockstep::comm {
namespace {

using Store = c10::intrusive_ptr<MeetingStore>;

constexpr std::chrono::milliseconds kConnect{30'000};
constexpr size_t kTokenBytes = 16, kSecretBytes = 32;

/// What a rank keeps while its group lives.
struct Joined {
  Store store;  // rank 0's serves the others
  std::shared_ptr<GroupMemory> memory;
  std::unique_ptr<PeerWatch> watch;
};

std::shared_ptr<GroupMemory> share_memory(const Store& store, const launch::Launch& launch,
                                          const std::vector<Json>& ranks) {
  constexpr const char* kKey = "memory";
  if (launch.rank == 0) {
    auto memory = GroupMemory::make(launch.size);
    store->set(kKey, "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory->descriptor()));
    return memory;
  }
  const std::string path = store->get_to_str(kKey);
  const std::string folder = "/proc/" + std::to_string(ranks.front()["process"].get<int64_t>()) + "/fd/";
  if (!path.starts_with(folder) || !parse_number<int>(path.substr(folder.size())))
    throw Error(
        ErrorCode::communication,
        who(launch) + " was given \"" + printable(path.substr(0, 80)) + "\", which is not rank 0's memory",
        kSecretHint);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) throw errno_error(errno, "open", path);
  auto memory = GroupMemory::open(descriptor);
  if (memory->size() != static_cast<int64_t>(ranks.size()))
    throw Error(ErrorCode::communication, who(launch) + " was given the memory of another group");
  return memory;
}

// The first rank on another machine than rank 0; 0 if all are on one machine.
size_t first_elsewhere(const std::vector<Json>& ranks) {
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank]["machine"] != ranks[0]["machine"]) return rank;
  }
  return 0;
}

bool use_gloo(const std::vector<Json>& ranks, CommunicatorKind kind) {
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank]["communicator"] == ranks[0]["communicator"]) continue;
    throw Error(ErrorCode::invalid_option,
                name_of(rank, ranks[rank]) + " has --communicator " +
                    ranks[rank]["communicator"].get<std::string>() + " and rank 0 " +
                    ranks[0]["communicator"].get<std::string>(),
                "start all ranks with the same options");
  }
  const size_t other = first_elsewhere(ranks);
  if (other > 0 && kind == CommunicatorKind::shared) {
    throw Error(ErrorCode::invalid_option,
                "rank " + std::to_string(other) + " is on " + ranks[other]["host"].get<std::string>() +
                    " and rank 0 on " + ranks[0]["host"].get<std::string>() +
                    ", and only ranks of one user on one machine share memory",
                "--communicator gloo, or auto, takes the network");
  }
  return kind == CommunicatorKind::gloo || other > 0;
}

// The address of each rank must be reachable for all; every rank reports a problem in the same words.
void check_addresses(const std::vector<Json>& ranks) {
  constexpr const char* kHint =
      "set GLOO_SOCKET_IFNAME to the network interface that reaches the other machines, or MASTER_ADDR to an "
      "address of rank 0's machine in their network";
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].contains("address"))
      throw Error(ErrorCode::communication,
                  name_of(rank, ranks[rank]) +
                      " has no address for the others: " + ranks[rank]["no_address"].get<std::string>(),
                  kHint);
    const auto address = ranks[rank]["address"].get<std::string>();
    if (is_loopback(address) && first_elsewhere(ranks) > 0) {
      throw Error(
          ErrorCode::communication,
          name_of(rank, ranks[rank]) + " would be reached at " + address + ", which no other machine can",
          kHint);
    }
  }
}

// Rank 0 listens, the others connect to it.
Descriptor control_socket(const Store& store, const launch::Launch& launch, const std::string& address,
                          std::string& token) {
  constexpr const char* kKey = "control";
  try {
    if (launch.rank == 0) {
      Descriptor socket = listen_at(address, 0);
      token = random_hex(kTokenBytes);
      store->set(kKey, Json{{"address", address}, {"port", port_of(socket)}, {"token", token}}.dump());
      return socket;
    }
    const Json place = Json::parse(store->get_to_str(kKey));
    token = place["token"].get<std::string>();
    return connect_to(place["address"].get<std::string>(), place["port"].get<uint16_t>(), kConnect);
  } catch (const SocketFailure& failure) {
    throw cannot(launch, launch.rank == 0 ? "listen at" : "reach rank 0 from", address, failure,
                 "can the machines reach each other at these addresses and any port?");
  }
}

std::unique_ptr<Communicator> join_over_network(const Store& store, const launch::Launch& launch,
                                                const std::vector<Json>& ranks, CommunicatorOptions options) {
  check_addresses(ranks);
  GlooPlace place{.store = store,
                  .address = ranks[static_cast<size_t>(launch.rank)]["address"].get<std::string>(),
                  .members = {.rank = launch.rank, .names = {}, .token = {}},
                  .control = Descriptor()};
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    place.members.names.push_back(name_of(rank, ranks[rank]));
  place.control = control_socket(store, launch, place.address, place.members.token);
  return make_gloo_communicator(std::move(place), std::move(options));
}

std::unique_ptr<Communicator> join_in_memory(const Store& store, const launch::Launch& launch,
                                             const std::vector<Json>& ranks, CommunicatorOptions options) {
  auto joined = std::make_shared<Joined>();
  joined->store = store;
  joined->memory = share_memory(store, launch, ranks);
  std::vector<pid_t> processes;
  for (const Json& rank : ranks) processes.push_back(rank["process"].get<pid_t>());
  joined->watch = std::make_unique<PeerWatch>(*joined->memory, launch.rank, processes);
  GroupMemory* memory = joined->memory.get();
  return make_communicator(std::shared_ptr<GroupMemory>(std::move(joined), memory), launch.rank,
                           std::move(options));
}

std::unique_ptr<Communicator> join(const launch::Launch& launch, const Joining& how,
                                   CommunicatorOptions options) {
  Patience patience(waiting_of(launch, how.waiting));
  const OpenStore open = open_store(launch, patience);
  const Met met = meet(open, launch, introduction(launch, how.kind), patience);
  const Store store = open.store->under(met.session + "/");
  auto comm = use_gloo(met.ranks, how.kind) ? join_over_network(store, launch, met.ranks, std::move(options))
                                            : join_in_memory(store, launch, met.ranks, std::move(options));
  comm->barrier();  // now every rank has what it needs from the others, and rank 0 need not wait for any
  return comm;
}

}  // namespace

std::unique_ptr<Communicator> join_group(const launch::Launch& launched, CommunicatorOptions options,
                                         const Joining& how) {
  const launch::Launch launch = at_meeting_place(launched);
  return at_meeting(launch, [&] { return join(launch, how, std::move(options)); });
}

struct MeetingPlace::Server {
  c10::intrusive_ptr<c10d::Store> store;
};

MeetingPlace::MeetingPlace(std::string address)
    : address_(std::move(address)), secret_(random_hex(kSecretBytes)) {
  try {
    Descriptor socket = listen_at(address_, 0);
    port_ = port_of(socket);
    const c10d::TCPStoreOptions options{
        .port = port_, .isServer = true, .waitWorkers = false, .masterListenFd = socket.release()};
    server_ = std::make_unique<Server>(Server{c10::make_intrusive<c10d::TCPStore>(address_, options)});
  } catch (const SocketFailure& failure) {
    throw Error(ErrorCode::communication, "ranks cannot meet at " + address_ + ": " + failure.why);
  } catch (...) {
    throw Error(ErrorCode::communication, "ranks cannot meet at " + address_ + ":" + std::to_string(port_) +
                                              ": " + device::error_of(std::current_exception()).message());
  }
}

MeetingPlace::~MeetingPlace() = default;

}  // namespace lockstep::comm
