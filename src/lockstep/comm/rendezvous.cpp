// Ranks publish their addresses in the store where they meet, and connect in the way that all of them can
// use.
#include "lockstep/comm/rendezvous.h"

#include <algorithm>
#include <cerrno>
#include <map>
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

std::string path_of_file(int descriptor) {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor);
}

// A file that another process of this machine has open, and whose path it has written under the key.
Descriptor open_file_of(const Store& store, const std::string& key, const launch::Launch& launch,
                        const Json& owner) {
  const std::string path = store->get_to_str(key);
  const std::string folder = "/proc/" + std::to_string(owner["process"].get<int64_t>()) + "/fd/";
  if (!path.starts_with(folder) || !parse_number<int>(path.substr(folder.size())))
    throw Error(
        ErrorCode::communication,
        who(launch) + " was given \"" + printable(path.substr(0, 80)) + "\", which is not that rank's memory",
        kSecretHint);
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) throw errno_error(errno, "open", path);
  return file;
}

std::shared_ptr<GroupMemory> share_memory(const Store& store, const launch::Launch& launch,
                                          const std::vector<Json>& ranks) {
  constexpr const char* kKey = "memory";
  if (launch.rank == 0) {
    auto memory = GroupMemory::make(launch.size);
    store->set(kKey, path_of_file(memory->descriptor()));
    return memory;
  }
  auto memory = GroupMemory::open(open_file_of(store, kKey, launch, ranks.front()).release());
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

// Which of the processes that have met are ranks, and which load data.
struct Roles {
  std::vector<Json> ranks;             // introductions
  std::vector<int64_t> numbers;        // of the ranks among all processes
  std::vector<int64_t> loaders;        // numbers of the others
  std::map<int64_t, size_t> rank_for;  // loader's number: the rank that it loads for, of its machine, in turn
};

Roles roles_of(const std::vector<Json>& processes) {
  Roles roles;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].contains("loads")) {
      roles.loaders.push_back(static_cast<int64_t>(i));
      continue;
    }
    roles.ranks.push_back(processes[i]);
    roles.numbers.push_back(static_cast<int64_t>(i));
  }
  std::map<std::string, size_t> turns;
  for (const int64_t loader : roles.loaders) {
    const Json& machine = processes[static_cast<size_t>(loader)]["machine"];
    std::vector<size_t> here;
    for (size_t rank = 0; rank < roles.ranks.size(); ++rank) {
      if (roles.ranks[rank]["machine"] == machine) here.push_back(rank);
    }
    if (here.empty())
      throw Error(ErrorCode::device,
                  name_of(static_cast<size_t>(loader), processes[static_cast<size_t>(loader)]) +
                      " has no GPU, and no rank of its machine has one for which it could load data",
                  "start as many processes on each machine as it has GPUs, or more");
    roles.rank_for[loader] = here[turns[machine.dump()]++ % here.size()];
  }
  return roles;
}

std::string line_key(size_t rank) { return "line-" + std::to_string(rank); }
std::string line_taken_key(int64_t loader) { return "line-taken-" + std::to_string(loader); }

launch::Launch place_of_rank(const launch::Launch& launch, const Roles& roles) {
  launch::Launch place = launch;
  place.size = static_cast<int64_t>(roles.ranks.size());
  place.rank = std::ranges::find(roles.numbers, launch.rank) - roles.numbers.begin();
  place.local_size = place.local_rank = 0;
  const Json& machine = roles.ranks[static_cast<size_t>(place.rank)]["machine"];
  for (int64_t rank = 0; rank < place.size; ++rank) {
    if (roles.ranks[static_cast<size_t>(rank)]["machine"] != machine) continue;
    place.local_rank += rank < place.rank ? 1 : 0;
    ++place.local_size;
  }
  return place;
}

JoinedProcess join_as_loader(const Store& store, const launch::Launch& launch, const Roles& roles) {
  const size_t rank = roles.rank_for.at(launch.rank);
  JoinedProcess joined{.launch = launch, .loaders = roles.loaders, .rank = static_cast<int64_t>(rank)};
  joined.rank_process = roles.ranks[rank]["process"].get<pid_t>();
  joined.line = open_file_of(store, line_key(rank), launch, roles.ranks[rank]);
  store->set(line_taken_key(launch.rank), "taken");
  return joined;
}

// The store may end with rank 0, so its loaders must have the file before this rank goes on.
bool give_line(const Store& store, const Roles& roles, int64_t rank, int line) {
  std::vector<std::string> taken;
  for (const auto& [loader, for_rank] : roles.rank_for) {
    if (static_cast<int64_t>(for_rank) == rank) taken.push_back(line_taken_key(loader));
  }
  if (taken.empty()) return false;
  store->set(line_key(static_cast<size_t>(rank)), path_of_file(line));
  store->wait(taken);
  return true;
}

JoinedProcess join(const launch::Launch& launch, const Joining& how, CommunicatorOptions options) {
  Patience patience(waiting_of(launch, how.waiting));
  const OpenStore open = open_store(launch, patience);
  Json own = introduction(launch, how.kind);
  if (how.loads) own["loads"] = true;
  const Met met = meet(open, launch, own, patience);
  const Store store = open.store->under(met.session + "/");
  const Roles roles = roles_of(met.ranks);
  if (how.loads) return join_as_loader(store, launch, roles);
  JoinedProcess joined{.launch = roles.loaders.empty() ? launch : place_of_rank(launch, roles),
                       .loaders = roles.loaders};
  joined.has_loaders = give_line(store, roles, joined.launch.rank, how.line);
  joined.group = use_gloo(roles.ranks, how.kind)
                     ? join_over_network(store, joined.launch, roles.ranks, std::move(options))
                     : join_in_memory(store, joined.launch, roles.ranks, std::move(options));
  // After it every rank has what it needs from the others, and rank 0 need not wait for any.
  joined.group->barrier();
  return joined;
}

}  // namespace

JoinedProcess join_processes(const launch::Launch& launched, CommunicatorOptions options,
                             const Joining& how) {
  const launch::Launch launch = at_meeting_place(launched);
  return at_meeting(launch, [&] { return join(launch, how, std::move(options)); });
}

std::unique_ptr<Communicator> join_group(const launch::Launch& launched, CommunicatorOptions options,
                                         const Joining& how) {
  return join_processes(launched, std::move(options), how).group;
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
