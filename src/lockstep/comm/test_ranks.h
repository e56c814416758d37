// Ranks for the tests of communicators: a group of one, of threads, of processes, and what each of them
// failed with.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/gpu_communicator.h"
#include "lockstep/comm/internal/on_gpu.h"
#include "lockstep/comm/rendezvous.h"

namespace lockstep::comm::test {

using namespace std::chrono_literals;

enum class Link { none, threads, nccl };

struct Kind {
  const char* name;
  bool processes;
  int64_t size;
  bool joins = false;  ///< meets as a launcher's ranks do
  CommunicatorKind communicator = CommunicatorKind::auto_;
  Link link = Link::none;
};
inline void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.size << " " << kind.name; }

inline const Kind kJoined{"joined", true, 3, true};
inline const Kind kGloo{"gloo", true, 3, true, CommunicatorKind::gloo};

inline const Kind kLinkedThreads{"linked", false, 3, false, CommunicatorKind::auto_, Link::threads};

// In a process nobody would see a failed EXPECT.
inline void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("it does not hold that " + what);
}

using Work = std::function<void(Communicator&)>;

// What the ranks of a kind need. The meeting place has threads, so it opens after all processes are started:
// a fork may copy a lock that a thread holds.
struct Ground {
  std::shared_ptr<GroupMemory> memory;
  std::unique_ptr<MeetingPlace> place;
  std::atomic<uint16_t>* port = nullptr;  // shared with processes; 0 until the meeting place is open
  CommunicatorKind communicator;
  Link link;
  ThreadLinks links = {};

  explicit Ground(const Kind& kind) : communicator(kind.communicator), link(kind.link) {
    if (kind.joins) {
      void* page = ::mmap(nullptr, sizeof *port, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      if (page == MAP_FAILED) throw std::runtime_error("no memory");
      port = new (page) std::atomic<uint16_t>(0);
    } else if (kind.size > 1) {
      memory = GroupMemory::make(kind.size);
    }
  }
  Ground(const Ground&) = delete;
  Ground& operator=(const Ground&) = delete;
  ~Ground() {
    if (port != nullptr) ::munmap(port, sizeof *port);
  }
  void open() {
    if (port == nullptr) return;
    place = std::make_unique<MeetingPlace>();
    port->store(place->port());
  }
};

inline std::unique_ptr<Communicator> gpu_communicator_of(const Ground& ground, int64_t rank,
                                                         const CommunicatorOptions& options) {
  std::shared_ptr<Communicator> host = make_communicator(ground.memory, rank, options);
  std::unique_ptr<device::GpuLink> link =
      ground.link == Link::nccl ? link_gpus(*host, rank) : ground.links.link(rank, at::kCPU);
  const at::Device device = link->device();
  auto comm = make_gpu_communicator({.host = std::move(host), .link = std::move(link)}, options);
  if (device.is_cpu()) return comm;
  return std::make_unique<OnGpu>(std::move(comm), device);
}

inline std::unique_ptr<Communicator> communicator_of(const Ground& ground, Share share,
                                                     const CommunicatorOptions& options) {
  if (ground.link != Link::none) return gpu_communicator_of(ground, share.rank, options);
  const int64_t rank = share.rank;
  if (ground.port == nullptr)
    return ground.memory == nullptr ? make_communicator(options)
                                    : make_communicator(ground.memory, rank, options);
  while (ground.port->load() == 0) std::this_thread::sleep_for(1ms);
  return join_group({.rank = rank,
                     .size = share.size,
                     .address = "127.0.0.1",
                     .port = ground.port->load(),
                     .agent_store = true},
                    options, {.kind = ground.communicator});
}

inline std::string text_of_failure(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    return std::string(name_of(error.code())) + ": " + error.message();
  } catch (const std::exception& error) {
    return error.what();
  }
}

inline void run_process(int pipe, const std::function<void()>& work) {
  const std::string text = text_of_failure(work);
  [[maybe_unused]] const ssize_t written = ::write(pipe, text.data(), text.size());
  ::_exit(0);
}

// The failure of each rank; empty where it did not fail.
inline std::vector<std::string> failures(const Kind& kind, const Work& work,
                                         const CommunicatorOptions& options = {.timeout = 20s}) {
  Ground ground(kind);
  std::vector<std::string> texts(static_cast<size_t>(kind.size));
  const auto rank_work = [&](int64_t rank) {
    return [&, rank] {
      at::set_num_threads(1);
      work(*communicator_of(ground, {rank, kind.size}, options));
    };
  };
  if (!kind.processes) {
    std::vector<std::jthread> threads;
    for (int64_t rank = 0; rank < kind.size; ++rank)
      threads.emplace_back(
          [&, rank] { texts[static_cast<size_t>(rank)] = text_of_failure(rank_work(rank)); });
    return threads.clear(), texts;
  }
  std::vector<int> pipes;
  std::vector<pid_t> pids;
  for (int64_t rank = 0; rank < kind.size; ++rank) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    pids.push_back(::fork());
    if (pids.back() == 0) run_process(ends[1], rank_work(rank));
    ::close(ends[1]);
    pipes.push_back(ends[0]);
  }
  ground.open();
  for (size_t rank = 0; rank < pipes.size(); ++rank) {
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(pipes[rank], buffer, sizeof buffer)) > 0;)
      texts[rank].append(buffer, static_cast<size_t>(got));
    ::close(pipes[rank]);
    ::waitpid(pids[rank], nullptr, 0);
  }
  return texts;
}

inline at::Tensor values_of(int64_t rank, int64_t count, at::ScalarType type) {
  return (at::arange(count, at::kDouble) * 0.37 + static_cast<double>(rank) * 1.0001).sin().mul(90).to(type);
}

}  // namespace lockstep::comm::test
