// Processes that meet as a launcher's ranks do: one that dies, stops or leaves is named.
#include <csignal>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/comm/test_ranks.h"

namespace lockstep::comm {
namespace {

using namespace test;
using namespace std::chrono_literals;

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

// The process is awake again after a time in which any machine notices that it was stopped.
void stop_this_process_for(std::chrono::seconds time) {
  const pid_t waker = ::fork();
  if (waker == 0) {
    std::this_thread::sleep_for(time);
    ::kill(::getppid(), SIGCONT);
    ::_exit(0);
  }
  ::raise(SIGSTOP);
  ::waitpid(waker, nullptr, 0);
}

TEST_P(JoinedRanks, AStoppedProcessIsNamed) {
  const auto texts = failures(GetParam(), [](Communicator& comm) {
    if (comm.rank() == 1) stop_this_process_for(12s);
    comm.barrier();
  });
  for (const std::string& text : texts)
    EXPECT_THAT(text, testing::MatchesRegex(
                          "cancelled: rank 1 .process [0-9]+. on .* has given no sign of life for 4 s.*"));
}

}  // namespace
}  // namespace lockstep::comm
