// Ranks meet at a key-value store (c10d's TCPStore, so that torchrun's own can be used) and say where they are. Nothing secret goes over it.
#include "lockstep/comm/rendezvous.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/json.h"
#include "lockstep/comm/internal/peer_watch.h"
#include "lockstep/comm/internal/store.h"
#include "lockstep/device/failure.h"

namespace lockstep::comm {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;

std::string place_of(const Launch& launch) { return launch.address + ":" + std::to_string(launch.port); }

std::string who(const Launch& launch) { return "rank " + std::to_string(launch.rank) + " on " + host_name(); }

// Listens on the address that the launcher named and no other, so a group on 127.0.0.1 is not to be reached from outside.
int listen_at(const Launch& launch) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int reason = ::getaddrinfo(launch.address.c_str(), std::to_string(launch.port).c_str(), &hints, &found); reason != 0) {
    throw Error(ErrorCode::communication, who(launch) + " cannot listen at " + place_of(launch) + ": " + ::gai_strerror(reason), "MASTER_ADDR is to be a name or address of rank 0's machine");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  int reason = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int descriptor = ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
    const int yes = 1;
    if (descriptor >= 0) ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (descriptor >= 0 && ::bind(descriptor, one->ai_addr, one->ai_addrlen) == 0 && ::listen(descriptor, SOMAXCONN) == 0) return descriptor;
    reason = errno;
    if (descriptor >= 0) ::close(descriptor);
  }
  throw Error(ErrorCode::communication, who(launch) + " cannot listen at " + place_of(launch) + ": " + std::strerror(reason),
              reason == EADDRINUSE ? "another group may use this MASTER_PORT; choose another one" : "MASTER_ADDR is to be a name or address of rank 0's machine");
}

}  // namespace

Store open_store(const Launch& launch) {
  c10d::TCPStoreOptions options{.port = launch.port, .numWorkers = static_cast<size_t>(launch.size)};
  if (launch.rank == 0 && !launch.agent_store) {
    options.isServer = true;
    options.masterListenFd = listen_at(launch);
  }
  return c10::make_intrusive<c10d::TCPStore>(launch.address, options);
}

namespace {

std::string first_line_of(const char* file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// Equal for processes that can open each other's files in /proc.
Json machine() {
  std::array<char, 100> space{};
  [[maybe_unused]] const ssize_t read = ::readlink("/proc/self/ns/pid", space.data(), space.size() - 1);
  return {{"boot", first_line_of("/proc/sys/kernel/random/boot_id")}, {"processes", space.data()}, {"user", ::getuid()}};
}

std::string own_key(int64_t rank) { return "rank-" + std::to_string(rank); }

// What every rank said, in rank order.
std::vector<Json> exchange(const Store& store, const Launch& launch, const Json& own) {
  store->set(own_key(launch.rank), own.dump());
  std::vector<Json> all;
  for (int64_t rank = 0; rank < launch.size; ++rank) all.push_back(Json::parse(store->get_to_str(own_key(rank))));
  return all;
}

/// What a rank keeps while its group lives.
struct Joined {
  Store store;  // rank 0's serves the others
  std::shared_ptr<GroupMemory> memory;
  std::unique_ptr<PeerWatch> watch;
};

std::shared_ptr<GroupMemory> share_memory(const Store& store, const Launch& launch, const std::vector<Json>& ranks) {
  constexpr const char* kKey = "memory";
  if (launch.rank == 0) {
    auto memory = GroupMemory::make(launch.size);
    store->set(kKey, "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory->descriptor()));
    return memory;
  }
  const std::string path = store->get_to_str(kKey);
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor < 0) throw errno_error(errno, "open", path);
  auto memory = GroupMemory::open(descriptor);
  if (memory->size() != static_cast<int64_t>(ranks.size())) throw Error(ErrorCode::communication, who(launch) + " was given the memory of another group");
  return memory;
}

std::unique_ptr<Communicator> join(const Launch& launch, CommunicatorOptions options) {
  auto joined = std::make_shared<Joined>();
  const Store bare = open_store(launch);
  joined->store = c10::make_intrusive<c10d::PrefixStore>("lockstep/" + std::to_string(launch.attempt), bare);
  const std::vector<Json> ranks = exchange(joined->store, launch, {{"machine", machine()}, {"process", ::getpid()}, {"host", host_name()}});
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank]["machine"] == ranks[0]["machine"]) continue;
    throw Error(ErrorCode::communication, "rank " + std::to_string(rank) + " is on " + ranks[rank]["host"].get<std::string>() + " and rank 0 on " + ranks[0]["host"].get<std::string>() + ", and ranks of a group must be one user's on one machine");
  }
  joined->memory = share_memory(joined->store, launch, ranks);
  std::vector<pid_t> processes;
  for (const Json& rank : ranks) processes.push_back(rank["process"].get<pid_t>());
  joined->watch = std::make_unique<PeerWatch>(*joined->memory, launch.rank, processes);
  GroupMemory* memory = joined->memory.get();
  auto comm = make_communicator(std::shared_ptr<GroupMemory>(std::move(joined), memory), launch.rank, std::move(options));
  comm->barrier();  // now every rank has the memory open, and rank 0 need not wait for anyone
  return comm;
}

}  // namespace

std::unique_ptr<Communicator> join_group(const Launch& launch, CommunicatorOptions options) {
  try {
    return join(launch, std::move(options));
  } catch (const Error&) {
    throw;
  } catch (...) {
    const Error error = device::error_of(std::current_exception());
    throw Error(ErrorCode::communication, who(launch) + " cannot meet the others at " + place_of(launch) + ": " + error.message(), "are all ranks started, with the same MASTER_ADDR and MASTER_PORT?");
  }
}

struct MeetingPlace::Server {
  Store store;
};

MeetingPlace::MeetingPlace() : address_("127.0.0.1") {
  const int descriptor = listen_at({.address = address_, .port = 0});
  sockaddr_in own{};
  socklen_t size = sizeof own;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &size) != 0) throw errno_error(errno, "look at", "a socket");
  port_ = ntohs(own.sin_port);
  const c10d::TCPStoreOptions options{.port = port_, .isServer = true, .waitWorkers = false, .masterListenFd = descriptor};
  try {
    server_ = std::make_unique<Server>(Server{c10::make_intrusive<c10d::TCPStore>(address_, options)});
  } catch (...) {
    throw Error(ErrorCode::communication, "ranks cannot meet at " + address_ + ":" + std::to_string(port_) + ": " + device::error_of(std::current_exception()).message());
  }
}

MeetingPlace::~MeetingPlace() = default;

}  // namespace lockstep::comm
