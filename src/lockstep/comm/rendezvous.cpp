// Ranks meet at a key-value store (c10d's TCPStore, so that torchrun's own can be used) and say where they are. Who reaches the store can
// join them, as with torchrun; the token in it keeps out who has only found the port of the control line.
#include "lockstep/comm/rendezvous.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <sys/random.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/internal/gloo_communicator.h"
#include "lockstep/comm/internal/peer_watch.h"
#include "lockstep/comm/internal/socket.h"
#include "lockstep/comm/internal/store.h"
#include "lockstep/device/failure.h"

namespace lockstep::comm {
namespace {

using Store = c10::intrusive_ptr<c10d::Store>;

constexpr std::chrono::milliseconds kConnect{30'000};

std::string place_of(const Launch& launch) { return launch.address + ":" + std::to_string(launch.port); }

std::string who(const Launch& launch) { return "rank " + std::to_string(launch.rank) + " on " + host_name(); }

Error cannot(const Launch& launch, const char* what, const std::string& place, const SocketFailure& failure, const std::string& hint) {
  return Error(ErrorCode::communication, who(launch) + " cannot " + what + " " + place + ": " + failure.why, hint);
}

Descriptor listen_for_store(const Launch& launch) {
  try {
    return listen_at(launch.address, launch.port);
  } catch (const SocketFailure& failure) {
    throw cannot(launch, "listen at", place_of(launch), failure,
                 failure.reason == EADDRINUSE ? "another group may use this MASTER_PORT; choose another one" : "MASTER_ADDR is to be a name or address of rank 0's machine");
  }
}

}  // namespace

Launch at_meeting_place(Launch launch) {
  if (launch.submitter.empty()) return launch;
  const std::optional<std::string> known = address_of_name(launch.address);
  if (known && !is_loopback(*known)) return launch;
  try {
    launch.address = known || launch.rank == 0 ? own_address_towards(launch.submitter, launch.port) : launch.submitter;
  } catch (const SocketFailure& failure) {
    throw cannot(launch, "reach", launch.submitter + ", where srun ran", failure, "set MASTER_ADDR to a name or address of rank 0's machine");
  }
  return launch;
}

Store open_store(const Launch& launch) {
  c10d::TCPStoreOptions options{.port = launch.port, .numWorkers = static_cast<size_t>(launch.size)};
  if (launch.rank == 0 && !launch.agent_store) {
    options.isServer = true;
    options.masterListenFd = listen_for_store(launch).release();
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

// Null where it is none: any program that reaches the store can write there.
Json introduction_in(const std::string& text) {
  try {
    Json said = parse_json(text);
    const auto is_text = [&](const char* name) { return said.contains(name) && said[name].is_string(); };
    if (said.is_object() && said.contains("machine") && said.contains("process") && said["process"].is_number_integer() && is_text("host") && is_text("communicator") && (is_text("address") || is_text("no_address"))) return said;
  } catch (const JsonError&) {
  }
  return nullptr;
}

// Rank 0 may serve the store: it waits until the others have read, so that one that ends at what it read takes the store from nobody.
void await_readers(const Store& store, const Launch& launch, const std::vector<Json>& ranks) {
  const auto key = [](int64_t rank) { return "has-read-" + std::to_string(rank); };
  if (launch.rank > 0) return store->set(key(launch.rank), "1");
  for (int64_t rank = 1; rank < launch.size; ++rank) {
    if (!ranks[static_cast<size_t>(rank)].is_null()) store->get_to_str(key(rank));
  }
}

// What every rank said, in rank order.
std::vector<Json> exchange(const Store& store, const Launch& launch, const Json& own) {
  store->set(own_key(launch.rank), own.dump());
  std::vector<std::string> texts;
  for (int64_t rank = 0; rank < launch.size; ++rank) texts.push_back(store->get_to_str(own_key(rank)));
  std::vector<Json> all;
  for (const std::string& text : texts) all.push_back(introduction_in(text));
  await_readers(store, launch, all);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].is_null()) continue;
    throw Error(ErrorCode::communication, "rank " + std::to_string(rank) + " introduces itself with \"" + printable(texts[rank].substr(0, 40)) + "\", which no rank of this version of Lockstep does",
                "start all ranks with the same program, and let no other one use this MASTER_PORT");
  }
  return all;
}

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) throw errno_error(errno, "make", "a random number");
  std::string text;
  for (const unsigned char byte : bytes) text += {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  return text;
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

// A rank's machine and address as the others are told. Why it has no address matters only where one is needed.
Json introduction(const Launch& launch, CommunicatorKind kind) {
  Json own{{"machine", machine()}, {"process", ::getpid()}, {"host", host_name()}, {"communicator", enum_names(kind)[static_cast<size_t>(kind)]}};
  try {
    own["address"] = launch.interface.empty() ? own_address_towards(launch.address, launch.port) : address_of_interface(launch.interface);
  } catch (const SocketFailure& failure) {
    own["no_address"] = failure.why;
  }
  return own;
}

std::string name_of(size_t rank, const Json& said) {
  return "rank " + std::to_string(rank) + " (process " + std::to_string(said["process"].get<int64_t>()) + ") on " + said["host"].get<std::string>();
}

// The first rank that is on another machine than rank 0; 0 where all are on one.
size_t first_elsewhere(const std::vector<Json>& ranks) {
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank]["machine"] != ranks[0]["machine"]) return rank;
  }
  return 0;
}

bool use_gloo(const std::vector<Json>& ranks, CommunicatorKind kind) {
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank]["communicator"] == ranks[0]["communicator"]) continue;
    throw Error(ErrorCode::invalid_option, name_of(rank, ranks[rank]) + " has --communicator " + ranks[rank]["communicator"].get<std::string>() + " and rank 0 " + ranks[0]["communicator"].get<std::string>(),
                "start all ranks with the same options");
  }
  const size_t other = first_elsewhere(ranks);
  if (other > 0 && kind == CommunicatorKind::shared) {
    throw Error(ErrorCode::invalid_option,
                "rank " + std::to_string(other) + " is on " + ranks[other]["host"].get<std::string>() + " and rank 0 on " + ranks[0]["host"].get<std::string>() +
                    ", and only ranks of one user on one machine share memory",
                "--communicator gloo, or auto, takes the network");
  }
  return kind == CommunicatorKind::gloo || other > 0;
}

// Where each rank is reached must make sense for all: said by every rank in the same words.
void check_addresses(const std::vector<Json>& ranks) {
  constexpr const char* kHint = "set GLOO_SOCKET_IFNAME to the network interface that reaches the other machines, or MASTER_ADDR to an address of rank 0's machine in their network";
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].contains("address")) throw Error(ErrorCode::communication, name_of(rank, ranks[rank]) + " has no address for the others: " + ranks[rank]["no_address"].get<std::string>(), kHint);
    const auto address = ranks[rank]["address"].get<std::string>();
    if (is_loopback(address) && first_elsewhere(ranks) > 0) {
      throw Error(ErrorCode::communication, name_of(rank, ranks[rank]) + " would be reached at " + address + ", which no other machine can", kHint);
    }
  }
}

// Rank 0 listens, the others connect to it.
Descriptor control_socket(const Store& store, const Launch& launch, const std::string& address, std::string& token) {
  constexpr const char* kKey = "control";
  try {
    if (launch.rank == 0) {
      Descriptor socket = listen_at(address, 0);
      token = random_token();
      store->set(kKey, Json{{"address", address}, {"port", port_of(socket)}, {"token", token}}.dump());
      return socket;
    }
    const Json place = Json::parse(store->get_to_str(kKey));
    token = place["token"].get<std::string>();
    return connect_to(place["address"].get<std::string>(), place["port"].get<uint16_t>(), kConnect);
  } catch (const SocketFailure& failure) {
    throw cannot(launch, launch.rank == 0 ? "listen at" : "reach rank 0 from", address, failure, "can the machines reach each other at these addresses and any port?");
  }
}

std::unique_ptr<Communicator> join_over_network(const Store& store, const Launch& launch, const std::vector<Json>& ranks, CommunicatorOptions options) {
  check_addresses(ranks);
  GlooPlace place{.store = store, .address = ranks[static_cast<size_t>(launch.rank)]["address"].get<std::string>(), .members = {.rank = launch.rank, .names = {}, .token = {}}, .control = Descriptor()};
  for (size_t rank = 0; rank < ranks.size(); ++rank) place.members.names.push_back(name_of(rank, ranks[rank]));
  place.control = control_socket(store, launch, place.address, place.members.token);
  return make_gloo_communicator(std::move(place), std::move(options));
}

std::unique_ptr<Communicator> join_in_memory(const Store& store, const Launch& launch, const std::vector<Json>& ranks, CommunicatorOptions options) {
  auto joined = std::make_shared<Joined>();
  joined->store = store;
  joined->memory = share_memory(store, launch, ranks);
  std::vector<pid_t> processes;
  for (const Json& rank : ranks) processes.push_back(rank["process"].get<pid_t>());
  joined->watch = std::make_unique<PeerWatch>(*joined->memory, launch.rank, processes);
  GroupMemory* memory = joined->memory.get();
  return make_communicator(std::shared_ptr<GroupMemory>(std::move(joined), memory), launch.rank, std::move(options));
}

std::unique_ptr<Communicator> join(const Launch& launch, CommunicatorKind kind, CommunicatorOptions options) {
  const Store store = c10::make_intrusive<c10d::PrefixStore>("lockstep/" + std::to_string(launch.attempt), open_store(launch));
  const std::vector<Json> ranks = exchange(store, launch, introduction(launch, kind));
  auto comm = use_gloo(ranks, kind) ? join_over_network(store, launch, ranks, std::move(options)) : join_in_memory(store, launch, ranks, std::move(options));
  comm->barrier();  // now every rank is there and has what it needs of the others, and rank 0 need not wait for anyone
  return comm;
}

}  // namespace

std::unique_ptr<Communicator> join_group(const Launch& launched, CommunicatorOptions options, CommunicatorKind kind) {
  const Launch launch = at_meeting_place(launched);
  try {
    return join(launch, kind, std::move(options));
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
  try {
    Descriptor socket = listen_at(address_, 0);
    port_ = port_of(socket);
    const c10d::TCPStoreOptions options{.port = port_, .isServer = true, .waitWorkers = false, .masterListenFd = socket.release()};
    server_ = std::make_unique<Server>(Server{c10::make_intrusive<c10d::TCPStore>(address_, options)});
  } catch (const SocketFailure& failure) {
    throw Error(ErrorCode::communication, "ranks cannot meet at " + address_ + ": " + failure.why);
  } catch (...) {
    throw Error(ErrorCode::communication, "ranks cannot meet at " + address_ + ":" + std::to_string(port_) + ": " + device::error_of(std::current_exception()).message());
  }
}

MeetingPlace::~MeetingPlace() = default;

}  // namespace lockstep::comm
