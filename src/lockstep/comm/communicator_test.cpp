// One text for every kind of communicator: a group of one, of threads, of processes.
#include <array>
#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <future>
#include <iostream>
#include <limits>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/utils.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/gpu_communicator.h"
#include "lockstep/comm/internal/on_gpu.h"
#include "lockstep/comm/internal/store.h"
#include "lockstep/comm/rendezvous.h"
#include "lockstep/device/gpu.h"

namespace lockstep::comm {
namespace {

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
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.size << " " << kind.name; }

const Kind kJoined{"joined", true, 3, true};
const Kind kGloo{"gloo", true, 3, true, CommunicatorKind::gloo};

const Kind kLinkedThreads{"linked", false, 3, false, CommunicatorKind::auto_, Link::threads};

// In a process EXPECT would tell nobody.
void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("it does not hold that " + what);
}

using Work = std::function<void(Communicator&)>;

// What the ranks of a kind need. The meeting place has threads, so it opens when all processes are there: a
// fork may copy a lock that one holds.
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

std::unique_ptr<Communicator> gpu_communicator_of(const Ground& ground, int64_t rank,
                                                  const CommunicatorOptions& options) {
  std::shared_ptr<Communicator> host = make_communicator(ground.memory, rank, options);
  std::unique_ptr<device::GpuLink> link =
      ground.link == Link::nccl ? link_gpus(*host, rank) : ground.links.link(rank, at::kCPU);
  const at::Device device = link->device();
  auto comm = make_gpu_communicator({.host = std::move(host), .link = std::move(link)}, options);
  if (device.is_cpu()) return comm;
  return std::make_unique<OnGpu>(std::move(comm), device);
}

std::unique_ptr<Communicator> communicator_of(const Ground& ground, Share share,
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

std::string text_of_failure(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    return std::string(name_of(error.code())) + ": " + error.message();
  } catch (const std::exception& error) {
    return error.what();
  }
}

void run_process(int pipe, const std::function<void()>& work) {
  const std::string text = text_of_failure(work);
  [[maybe_unused]] const ssize_t written = ::write(pipe, text.data(), text.size());
  ::_exit(0);
}

// What each rank failed with; empty where it did not.
std::vector<std::string> failures(const Kind& kind, const Work& work,
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

class CommunicatorContract : public testing::TestWithParam<Kind> {
 protected:
  void run(const Work& work) {
    const auto texts = failures(GetParam(), work);
    for (size_t rank = 0; rank < texts.size(); ++rank) EXPECT_EQ(texts[rank], "") << "rank " << rank;
  }
};

std::vector<Kind> made_kinds() {
  std::vector<Kind> kinds{{"one", false, 1},
                          {"threads", false, 2},
                          {"threads", false, 3},
                          {"processes", true, 2},
                          {"processes", true, 3},
                          {"joined", true, 3, true},
                          {"gloo", true, 1, true, CommunicatorKind::gloo},
                          {"gloo", true, 2, true, CommunicatorKind::gloo},
                          kGloo,
                          kLinkedThreads};
  const Kind nccl{"nccl", false, 2, false, CommunicatorKind::auto_, Link::nccl};
  const auto gpus = static_cast<int64_t>(device::inspect_gpus().gpus.size());
  if (gpus >= nccl.size)
    kinds.push_back(nccl);
  else
    std::cerr << "NCCL's communicator is NOT tested: it needs " << nccl.size << " GPUs, and there are "
              << gpus << " to use. " << device::inspect_gpus().note << "\n";
  return kinds;
}

const std::vector<Kind>& kinds_here() {
  static const std::vector<Kind> kinds = made_kinds();
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Kinds, CommunicatorContract, testing::ValuesIn(kinds_here()), [](const auto& info) {
  return std::string(info.param.name) + "_" + std::to_string(info.param.size);
});

at::Tensor values_of(int64_t rank, int64_t count, at::ScalarType type) {
  return (at::arange(count, at::kDouble) * 0.37 + static_cast<double>(rank) * 1.0001).sin().mul(90).to(type);
}

TEST_P(CommunicatorContract, SumsInRankOrder) {
  run([](Communicator& comm) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kLong, at::kInt, at::kShort, at::kChar}) {
      for (const int64_t count : {0, 1, 2, 5000, 300'001}) {
        at::Tensor expected = values_of(0, count, type);
        for (int64_t rank = 1; rank < comm.size(); ++rank) expected = expected + values_of(rank, count, type);
        const at::Tensor sum = values_of(comm.rank(), count, type);
        comm.all_reduce({sum}, Reduction::sum);
        expect(at::equal(sum, expected), "the sum of " + std::to_string(count) + " of type " +
                                             c10::toString(type) + " is that in rank order");
      }
    }
  });
}

TEST_P(CommunicatorContract, MeanAndMaxOfAList) {
  run([](Communicator& comm) {
    const auto n = static_cast<double>(comm.size());
    const at::Tensor first = at::full({3, 2}, static_cast<double>(comm.rank()), at::kFloat);
    const at::Tensor every_other =
        at::zeros({8}, at::kDouble).slice(0, 0, 8, 2).fill_(static_cast<double>(comm.rank() + 1));
    const at::Tensor half = at::full({4}, static_cast<double>(comm.rank()), at::kBFloat16);
    comm.all_reduce({first, every_other, half}, Reduction::mean);
    expect(at::equal(first, at::full({3, 2}, static_cast<float>((n - 1) / 2))),
           "the mean of ranks is (n - 1) / 2");
    expect(at::equal(every_other, at::full({4}, (n + 1) / 2, at::kDouble)),
           "a tensor with strides is written in place");
    expect(at::equal(half, at::full({4}, (n - 1) / 2, at::kBFloat16)), "bf16 has a mean");
    const at::Tensor odd = at::tensor(
        {static_cast<float>(comm.rank()), comm.rank() == 0 ? std::numeric_limits<float>::quiet_NaN() : 1.0F});
    comm.all_reduce({odd}, Reduction::max);
    expect(odd[0].item<double>() == n - 1, "max is the last rank");
    expect(std::isnan(odd[1].item<float>()), "a NaN stays");
  });
}

TEST_P(CommunicatorContract, NumbersAndFlags) {
  run([](Communicator& comm) {
    const auto n = static_cast<double>(comm.size());
    expect(comm.all_reduce(2.5, Reduction::sum) == 2.5 * n, "numbers add");
    expect(comm.all_reduce(static_cast<double>(comm.rank()), Reduction::max) == n - 1,
           "numbers have a maximum");
    expect(comm.all_reduce(true, FlagReduction::and_), "all true");
    expect(comm.all_reduce(comm.rank() == 0, FlagReduction::and_) == (comm.size() == 1),
           "one false is enough");
    expect(comm.all_reduce(comm.rank() == 0, FlagReduction::or_), "one true is enough");
    expect(!comm.all_reduce(false, FlagReduction::or_), "none true");
  });
}

TEST_P(CommunicatorContract, BroadcastFromEachRank) {
  run([](Communicator& comm) {
    for (int64_t root = 0; root < comm.size(); ++root) {
      const at::Tensor large = values_of(comm.rank(), 300'000, at::kFloat);
      const at::Tensor flags = at::full({5}, comm.rank() == root, at::kBool);
      comm.broadcast({large, flags}, root);
      expect(at::equal(large, values_of(root, 300'000, at::kFloat)), "the values are those of the root");
      expect(flags.all().item<bool>(), "each type of a list is sent");
    }
  });
}

TEST_P(CommunicatorContract, GatherOfUnequalSizes) {
  run([](Communicator& comm) {
    const auto own = [](int64_t rank) {
      return values_of(rank, rank == 0 ? 300'000 : 2 * rank, at::kFloat).view({-1, 2});
    };
    std::vector<at::Tensor> expected;
    for (int64_t rank = 0; rank < comm.size(); ++rank) expected.push_back(own(rank));
    expect(at::equal(comm.cat(own(comm.rank())), at::cat(expected)), "cat puts one behind the other");
    const int64_t root = comm.size() - 1;
    const auto parts = comm.gather(own(comm.rank()), root);
    expect(parts.size() == (comm.rank() == root ? expected.size() : 0), "only the root has the list");
    for (size_t i = 0; i < parts.size(); ++i)
      expect(at::equal(parts[i], expected[i]), "each part is a rank's");
    expect(
        comm.all_gather(at::zeros({comm.rank(), 3})).back().sizes() == at::IntArrayRef({comm.size() - 1, 3}),
        "a rank may have nothing");
  });
}

// `stacks` stand for the threads of a rank: each adds a part of the rank's shards.
std::vector<NodeStack> stacks_of(Share share, const std::vector<at::Tensor>& shards, int64_t stacks) {
  const auto shard_count = static_cast<int64_t>(shards.size());
  std::vector<NodeStack> filled;
  for (int64_t thread = 0; thread < stacks; ++thread) {
    const Range own = part_of(shard_count, share.size * stacks, share.rank * stacks + thread);
    NodeStack& stack = filled.emplace_back(shards[0].numel(), shards[0].scalar_type(), at::kCPU);
    stack.begin(shard_count);
    for (int64_t shard = own.begin; shard < own.end; ++shard) {
      const at::Tensor& vector = shards[static_cast<size_t>(shard)];
      stack.take(single(shard), [&](const at::Tensor& buffer, bool add) {
        add ? buffer.add_(vector) : buffer.copy_(vector);
      });
    }
  }
  return filled;
}

TEST_P(CommunicatorContract, TheTreeHasTheSameBitsForAnyNumberOfRanks) {
  run([](Communicator& comm) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      for (const int64_t shard_count : {1, 2, 3, 5, 8, 13}) {
        for (const int64_t count :
             {int64_t{0}, int64_t{1}, int64_t{5000}, shard_count == 5 ? int64_t{300'001} : int64_t{7}}) {
          std::vector<at::Tensor> shards;
          for (int64_t i = 0; i < shard_count; ++i)
            shards.push_back(values_of(i, count, type).mul_(std::pow(10.0, i % 5)));
          const at::Tensor expected =
              fold(shards, 0, shard_count, [](const at::Tensor& a, const at::Tensor& b) { return a + b; });
          for (const int64_t stacks : {1, 3}) {
            std::vector<Node> nodes;
            const std::vector<NodeStack> filled = stacks_of(comm.share(), shards, stacks);
            for (const NodeStack& stack : filled)
              nodes.insert(nodes.end(), stack.nodes().begin(), stack.nodes().end());
            expect(
                at::equal(comm.reduce_tree(nodes, shard_count), expected),
                std::to_string(shard_count) + " shards of " + std::to_string(count) + " add up in the tree");
          }
        }
      }
    }
  });
}

TEST_P(CommunicatorContract, ASumThatIsHeldStays) {
  run([](Communicator& comm) {
    const auto sum_of = [&](float value) {
      std::vector<Node> nodes;
      if (comm.rank() == 0) nodes.push_back({{0, 1}, at::full({100}, value)});
      return comm.reduce_tree(nodes, 1);
    };
    const at::Tensor first = sum_of(1);
    const at::Tensor second = sum_of(2);
    expect(at::equal(first, at::full({100}, 1.0F)) && at::equal(second, at::full({100}, 2.0F)),
           "the second sum is not written over the first");
  });
}

TEST_P(CommunicatorContract, ManyBarriersAndMixedCalls) {
  run([](Communicator& comm) {
    for (int step = 0; step < 500; ++step) {
      comm.barrier();
      const double sum = comm.all_reduce(static_cast<double>(step), Reduction::sum);
      expect(sum == static_cast<double>(step * comm.size()), "no rank is a step behind");
    }
  });
}

TEST_P(CommunicatorContract, AStopEndsTheGroup) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    std::stop_source stop;
    if (comm.rank() == 0) stop.request_stop();
    comm.barrier({.timeout = 20s, .stop = stop.get_token()});
  });
  for (const std::string& text : texts) EXPECT_EQ(text, "cancelled: rank 0 was stopped");
}

TEST_P(CommunicatorContract, AFailureEndsTheGroupForGood) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    if (comm.rank() == comm.size() - 1) comm.abort(Error(ErrorCode::io, "the disk is gone"));
    const std::string first = text_of_failure([&] { comm.barrier(); });
    expect(text_of_failure([&] { comm.all_reduce(1.0, Reduction::sum); }) == first, "the group stays broken");
    throw std::runtime_error(first);
  });
  for (const std::string& text : texts)
    EXPECT_EQ(text, "cancelled: rank " + std::to_string(GetParam().size - 1) + " failed: the disk is gone");
}

// A host's line that counts what goes over it.
class CountedLine : public Communicator {
 public:
  explicit CountedLine(std::unique_ptr<Communicator> line) : line_(std::move(line)) {}
  Share share() const override { return line_->share(); }
  std::string way() const override { return line_->way(); }
  void barrier(const WaitOptions& wait) override { line_->barrier(wait); }
  void all_reduce(const std::vector<at::Tensor>& all, Reduction reduction, const WaitOptions& wait) override {
    line_->all_reduce(counted(all), reduction, wait);
  }
  void broadcast(const std::vector<at::Tensor>& tensors, int64_t root, const WaitOptions& wait) override {
    line_->broadcast(counted(tensors), root, wait);
  }
  std::vector<Node> exchange_nodes(const std::vector<Node>& nodes, int64_t shards,
                                   const WaitOptions& wait) override {
    for (const Node& node : nodes) counted({node.sum});
    return line_->exchange_nodes(nodes, shards, wait);
  }
  void abort(const Error& reason) override { line_->abort(reason); }
  std::string failure() const override { return line_->failure(); }
  size_t bytes() const { return bytes_; }

 protected:
  std::vector<at::Tensor> collect(const at::Tensor& tensor, int64_t, const WaitOptions& wait) override {
    return line_->all_gather(counted({tensor}).front(), wait);
  }

 private:
  std::vector<at::Tensor> counted(const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& tensor : tensors) bytes_ += tensor.nbytes();
    return tensors;
  }
  const std::unique_ptr<Communicator> line_;
  size_t bytes_ = 0;
};

// One of the three has no shard.
TEST(GpuCommunicator, SendsNothingButWordsOverTheHost) {
  constexpr int64_t kElements = 100'000;
  const auto memory = GroupMemory::make(3);
  const ThreadLinks links;
  std::vector<std::jthread> threads;
  for (int64_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto host = std::make_shared<CountedLine>(make_communicator(memory, rank));
      const auto comm = make_gpu_communicator({.host = host, .link = links.link(rank, at::kCPU)});
      std::vector<Node> nodes;
      if (rank > 0) nodes.push_back({single(rank - 1), values_of(rank, kElements, at::kFloat)});
      const at::Tensor sum = comm->reduce_tree(nodes, 2);
      EXPECT_TRUE(at::equal(sum, values_of(1, kElements, at::kFloat) + values_of(2, kElements, at::kFloat)));
      comm->all_reduce({sum}, Reduction::sum);
      comm->broadcast({sum}, 1);
      EXPECT_EQ(comm->gather(sum, 0).size(), rank == 0 ? 3U : 0U);
      EXPECT_LT(host->bytes(), 2000U);
    });
  }
}

class SeveralRanks : public CommunicatorContract {};
INSTANTIATE_TEST_SUITE_P(Kinds, SeveralRanks,
                         testing::Values(Kind{"threads", false, 3}, Kind{"processes", true, 3}, kJoined,
                                         kGloo),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(SeveralRanks, TimeNamesWhoDidNotCome) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    comm.barrier();  // on a busy machine they start at different times
    if (comm.rank() == 1) std::this_thread::sleep_for(1500ms);
    comm.all_reduce({at::ones({3})}, Reduction::sum, {.timeout = 1s});
  });
  const std::string reason = "rank 1 of 3 did not come to all_reduce within 1 s";
  for (const std::string& text : texts)
    EXPECT_TRUE(text == "timeout: " + reason || text == "cancelled: " + reason) << text;
  EXPECT_TRUE(texts[0].starts_with("timeout") || texts[2].starts_with("timeout"));
}

TEST_P(SeveralRanks, DifferentCallsAreNamed) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    if (comm.rank() == 2) comm.barrier();
    comm.all_reduce({at::ones({1200})}, Reduction::sum);
  });
  EXPECT_NE(texts[0].find(
                "rank 2 came with barrier where rank 0 came with all_reduce of 1,200 elements of type Float"),
            std::string::npos)
      << texts[0];
  const auto sizes = failures(GetParam(), [](Communicator& comm) {
    comm.all_reduce({at::ones({3 + comm.rank() / 2})}, Reduction::sum);
  });
  EXPECT_NE(sizes[1].find("rank 2 came with all_reduce of 4 elements"), std::string::npos) << sizes[1];
}

TEST_P(SeveralRanks, AShardOnNoRankOrOnTwoIsNamed) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    std::vector<Node> nodes;
    if (comm.rank() < 2) nodes.push_back({{0, 1}, at::ones({3})});
    comm.reduce_tree(nodes, 1);
  });
  EXPECT_NE(texts[2].find("shard 0 of 1 is on 2 ranks, not on one"), std::string::npos) << texts[2];
}

TEST_P(SeveralRanks, AWaitingRankIsStopped) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    std::stop_source stop;
    std::jthread later;
    if (comm.rank() == 0)
      later = std::jthread([&] {
        std::this_thread::sleep_for(100ms);
        stop.request_stop();
      });
    if (comm.rank() == 2) std::this_thread::sleep_for(400ms);
    comm.barrier({.timeout = 20s, .stop = stop.get_token()});
  });
  for (const std::string& text : texts) EXPECT_EQ(text, "cancelled: rank 0 was stopped");
}

class JoinedRanks : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, JoinedRanks, testing::Values(kJoined, kGloo),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(JoinedRanks, ADeadProcessIsNamed) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    if (comm.rank() == 1) ::raise(SIGKILL);
    comm.barrier();
  });
  for (const size_t rank : {0, 2})
    EXPECT_THAT(texts[rank], testing::MatchesRegex("cancelled: rank 1 .process [0-9]+. on .* died"));
}

TEST_P(JoinedRanks, ADeathInEachCollectiveIsNamed) {
  const std::map<std::string, Work> collectives{
      {"barrier", [](Communicator& comm) { comm.barrier(); }},
      {"all_reduce", [](Communicator& comm) { comm.all_reduce({at::ones({1'000'000})}, Reduction::sum); }},
      {"broadcast", [](Communicator& comm) { comm.broadcast({at::ones({1'000'000})}, 1); }},
      {"gather", [](Communicator& comm) { comm.all_gather(at::ones({300'000})); }},
      {"reduce_tree", [](Communicator& comm) {
         comm.reduce_tree({{{comm.rank(), comm.rank() + 1}, at::ones({1'000'000})}}, 3);
       }}};
  for (const auto& [name, call] : collectives) {
    for (const auto delay : {0ms, 10ms, 30ms}) {
      const auto texts = failures(GetParam(), [&](Communicator& comm) {
        std::jthread end;
        if (comm.rank() == 1)
          end = std::jthread([&] {
            std::this_thread::sleep_for(delay);
            ::kill(::getpid(), SIGKILL);
          });
        while (true) call(comm);
      });
      for (const size_t rank : {0, 2})
        EXPECT_THAT(texts[rank], testing::MatchesRegex("cancelled: rank 1 .process [0-9]+. on .* died"))
            << name << ", rank " << rank;
    }
  }
}

TEST_P(JoinedRanks, AStoppedProcessIsNamed) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    const auto start = std::chrono::steady_clock::now();
    if (comm.rank() == 1) {
      const pid_t waker = ::fork();
      if (waker == 0) {
        std::this_thread::sleep_for(6s);
        ::kill(::getppid(), SIGCONT);
        ::_exit(0);
      }
      ::raise(SIGSTOP);
      ::waitpid(waker, nullptr, 0);
    }
    const std::string text = text_of_failure([&] { comm.barrier(); });
    if (comm.rank() != 1) expect(std::chrono::steady_clock::now() - start < 5s, "it is noticed within 5 s");
    throw std::runtime_error(text);
  });
  for (const std::string& text : texts)
    EXPECT_THAT(text, testing::MatchesRegex(
                          "cancelled: rank 1 .process [0-9]+. on .* has given no sign of life for 4 s.*"));
}

TEST_P(JoinedRanks, OneThatHasLeftIsNotMissed) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 1) return;
    std::this_thread::sleep_for(200ms);
    const std::string text = text_of_failure([&] { comm.barrier({.timeout = 1s}); });
    expect(text.ends_with("rank 1 of 3 did not come to barrier within 1 s"),
           "who left is late, not dead, but: " + text);
  });
  for (const std::string& text : texts) EXPECT_EQ(text, "");
}

TEST(Launch, ReadsTorchrunsVariables) {
  std::map<std::string, std::string> variables{{"RANK", "5"},
                                               {"WORLD_SIZE", "8"},
                                               {"LOCAL_RANK", "1"},
                                               {"LOCAL_WORLD_SIZE", "4"},
                                               {"MASTER_ADDR", "node-a"},
                                               {"MASTER_PORT", "29500"},
                                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                               {"TORCHELASTIC_RESTART_COUNT", "2"},
                                               {"GLOO_SOCKET_IFNAME", "eth1"}};
  const auto read = [&] {
    return read_launch(
        [&](const char* name) { return variables.contains(name) ? variables[name].c_str() : nullptr; });
  };
  const Launch launch = read().value();
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 4);
  EXPECT_EQ(launch.address, "node-a");
  EXPECT_EQ(launch.port, 29500);
  EXPECT_TRUE(launch.agent_store);
  EXPECT_EQ(launch.attempt, 2);
  EXPECT_EQ(launch.interface, "eth1");
  EXPECT_EQ(launch.secret, "");
  EXPECT_EQ(launch.lost_status, 1);
  variables["LOCKSTEP_SECRET"] = "0123456789abcdef";
  EXPECT_EQ(read()->secret, "0123456789abcdef");
  variables["LOCKSTEP_SECRET"] = "";
  EXPECT_EQ(text_of_failure([&] { read(); }),
            "invalid_option: the environment variable LOCKSTEP_SECRET has 0 characters, of at least 16: it "
            "could be guessed");
  variables.erase("LOCKSTEP_SECRET");
  variables["MASTER_PORT"] = "http";
  EXPECT_EQ(text_of_failure([&] { read(); }),
            "invalid_option: the environment variable MASTER_PORT cannot be \"http\": it must be a number "
            "from 1 to 65535");
  variables.clear();
  EXPECT_FALSE(read().has_value());
}

constexpr const char* kSecret = "of these tests alone";

Launch rank_at(const MeetingPlace& place, int64_t rank) {
  return {.rank = rank,
          .size = 2,
          .address = "127.0.0.1",
          .port = place.port(),
          .agent_store = true,
          .secret = kSecret};
}

TEST(Rendezvous, NamesARankThatIsNoneOfOurs) {
  for (const std::string& said :
       {std::string("hello"), std::string(100'000, '['), std::string(R"({"process":1})"),
        std::string(R"({"machine":{},"process":"1","host":"a","communicator":"auto","address":"b"})")}) {
    MeetingPlace place;
    const Launch launch = rank_at(place, 0);
    Patience patience({});
    open_store(launch, patience).store->set("rank-1", said);
    const std::string text = text_of_failure([&] { join_group(launch, {.timeout = 20s}); });
    EXPECT_EQ(text, "communication: rank 1 introduces itself with \"" + said.substr(0, 40) +
                        "\", which no rank of this version of Lockstep does");
  }
}

std::string key_at(const MeetingPlace& place, const std::string& key) {
  return "lockstep/" + std::to_string(place.port()) + "/0/" + key;
}

// What a stranger can do who reaches the store.
c10::intrusive_ptr<c10d::Store> strangers_store(const MeetingPlace& place) {
  return c10::make_intrusive<c10d::TCPStore>(
      "127.0.0.1", c10d::TCPStoreOptions{.port = place.port(), .waitWorkers = false});
}

TEST(Rendezvous, WhatAStrangerSaysIsAsIfItWereNotThere) {
  MeetingPlace place;
  const auto stranger = strangers_store(place);
  for (const char* key : {"rank-0", "rank-1", "roster", "met", "rank-1-has-seen"})
    stranger->set(
        key_at(place, key),
        std::string(R"({"machine":{},"process":1,"host":"a","communicator":"auto","address":"127.0.0.1"})"));
  std::vector<std::string> told;
  const Waiting short_one{.limit = 6s, .tell = [&](const std::string& what) { told.push_back(what); }};
  const std::string at = "127.0.0.1:" + std::to_string(place.port()) +
                         "; somebody writes there who does not know the secret of this launch";
  const std::string text =
      text_of_failure([&] { join_group(rank_at(place, 0), {}, {.waiting = short_one}); });
  EXPECT_EQ(text, "communication: rank 1 of 2 did not come to rank 0 within 6 s, at " + at);
  EXPECT_THAT(told, testing::ElementsAre("waiting for rank 1 of 2 at " + at));
}

TEST(Rendezvous, AStrangerWhoOnlyTakesThingsAwayIsNamed) {
  MeetingPlace place;
  const auto stranger = strangers_store(place);
  const std::jthread thief([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const char* key : {"rank-0", "door"}) stranger->deleteKey(key_at(place, key));
      std::this_thread::sleep_for(10ms);
    }
  });
  EXPECT_THAT(text_of_failure([&] { join_group(rank_at(place, 0), {}, {.waiting = {.limit = 2s}}); }),
              testing::EndsWith("; somebody writes there who does not know the secret of this launch"));
}

TEST(Rendezvous, RanksMeetAmongStrangersAndStaleWords) {
  MeetingPlace place;
  const auto stranger = strangers_store(place);
  const auto begun = [&](int64_t rank) {
    return std::async(std::launch::async, [&, rank] {
      return text_of_failure([&] {
        expect(join_group(rank_at(place, rank), {.timeout = 20s}, {.waiting = {.limit = 20s}})->size() == 2,
               "both are there");
      });
    });
  };
  for (int group = 0; group < 2; ++group) {  // the second one finds what the first has left
    auto first = begun(1);
    std::jthread noise([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        for (const char* key : {"rank-0", "rank-1", "roster", "met"}) {
          stranger->set(key_at(place, key), std::string("noise"));
          std::this_thread::sleep_for(20ms);
          stranger->deleteKey(key_at(place, key));
        }
      }
    });
    auto second = begun(0);
    EXPECT_EQ(first.get(), "");
    EXPECT_EQ(second.get(), "");
  }
}

TEST(Rendezvous, SaysThatNobodyIsThere) {
  std::vector<std::string> told;
  uint16_t port = 0;
  { port = MeetingPlace().port(); }
  const std::string place = "127.0.0.1:" + std::to_string(port);
  const Waiting short_one{.limit = 5500ms, .tell = [&](const std::string& what) { told.push_back(what); }};
  const Launch launch{.rank = 1, .size = 2, .address = "127.0.0.1", .port = port};
  const std::string text = text_of_failure([&] { join_group(launch, {}, {.waiting = short_one}); });
  EXPECT_THAT(text, testing::MatchesRegex(
                        "communication: rank 1 of 2 on .* gave up after 5.5 s of waiting for rank 0 at " +
                        place + ": Connection refused"));
  EXPECT_THAT(told,
              testing::ElementsAre("rank 1 of 2 waits for rank 0 at " + place + ": Connection refused"));
}

TEST(Seal, OpensOnlyWithItsSecretAndKey) {
  const Secret secret = secret_of("one"), other = secret_of("another");
  const std::vector<uint8_t> value{1, 2, 3};
  std::vector<uint8_t> sealed = seal(secret, "key", value);
  EXPECT_EQ(unseal(secret, "key", sealed), value);
  EXPECT_EQ(unseal(secret, "key2", sealed), std::nullopt);
  EXPECT_EQ(unseal(other, "key", sealed), std::nullopt);
  EXPECT_NE(seal(secret, "key", value), sealed);
  for (size_t at = 0; at < sealed.size(); ++at) {
    sealed[at] ^= 1;
    EXPECT_EQ(unseal(secret, "key", sealed), std::nullopt) << at;
    sealed[at] ^= 1;
    EXPECT_EQ(unseal(secret, "key", {sealed.begin(), sealed.begin() + static_cast<std::ptrdiff_t>(at)}),
              std::nullopt)
        << at;
  }
}

TEST(SecretDoor, GivesTheSecretToItsUser) {
  const Secret secret = secret_of("one");
  std::string name;
  {
    const SecretDoor door(secret);
    name = door.name();
    EXPECT_TRUE(is_door(name));
    EXPECT_EQ(ask_at_door(name), secret);
    EXPECT_EQ(ask_at_door(name), secret);
  }
  EXPECT_EQ(ask_at_door(name), std::nullopt);
}

TEST(SecretDoor, GivesNothingToAnotherUserAndTakesNothingFromOne) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user; hint: run it as root";
  const auto as_nobody = [](const std::function<bool()>& work) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::setresuid(65534, 65534, 65534) == 0 && work() ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    return status == 0;
  };
  const Secret secret = secret_of("one");
  const SecretDoor door(secret);
  EXPECT_TRUE(as_nobody([&] { return !ask_at_door(door.name()); }));
  EXPECT_EQ(ask_at_door(door.name()), secret);
  // The other way round: his door, and we ask.
  std::array<int, 2> pipe{}, end{};
  ASSERT_EQ(::pipe(pipe.data()) + ::pipe(end.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    const SecretDoor his(secret);
    [[maybe_unused]] ssize_t moved = ::write(pipe[1], his.name().data(), his.name().size());
    char byte = 0;
    moved = ::read(end[0], &byte, 1);
    ::_exit(0);
  }
  std::array<char, 100> name{};
  ASSERT_GT(::read(pipe[0], name.data(), name.size()), 0);
  EXPECT_EQ(ask_at_door(name.data()), std::nullopt);
  ASSERT_EQ(::write(end[1], "x", 1), 1);
  ::waitpid(child, nullptr, 0);
}

TEST(GroupMemory, RefusesForeignMemory) {
  EXPECT_THROW(GroupMemory::open(::memfd_create("other", MFD_CLOEXEC)), Error);
  EXPECT_THROW(GroupMemory::make(0), Error);
}

// A copy of a group's memory that its maker can cut short, or that is another user's.
int copy_of_memory(int64_t size, unsigned flags) {
  const auto memory = GroupMemory::make(size);
  struct stat status {};
  ::fstat(memory->descriptor(), &status);
  const int copy = ::memfd_create("copy", flags);
  [[maybe_unused]] const int sized = ::ftruncate(copy, status.st_size);
  off_t from = 0;
  while (::sendfile(copy, memory->descriptor(), &from, static_cast<size_t>(status.st_size)) > 0) {
  }
  return copy;
}

TEST(GroupMemory, RefusesWhatCouldBeCutShort) {
  EXPECT_EQ(text_of_failure([] { GroupMemory::open(copy_of_memory(2, MFD_CLOEXEC)); }),
            "corrupt_data: the shared memory of a group cannot be used: it is not sealed, so it could be cut "
            "short");
  const int sealed = copy_of_memory(2, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_EQ(GroupMemory::open(sealed)->size(), 2);
}

TEST(GroupMemory, RefusesAnotherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file another user's; hint: run it as root";
  const int descriptor = copy_of_memory(2, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  ASSERT_EQ(::fchown(descriptor, 65534, 65534), 0);
  EXPECT_EQ(text_of_failure([&] { GroupMemory::open(descriptor); }),
            "corrupt_data: the shared memory of a group cannot be used: it is another user's");
}

TEST(Communicator, RefusesSumsThatHaveNoMeaning) {
  const auto texts = failures({"threads", false, 2}, [](Communicator& comm) {
    comm.all_reduce({at::ones({2}, at::kLong)}, Reduction::mean);
  });
  EXPECT_EQ(texts[0], "invalid_option: all_reduce cannot make the mean of tensors of type Long");
}

}  // namespace
}  // namespace lockstep::comm
