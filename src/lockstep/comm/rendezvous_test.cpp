// How ranks meet at a store that strangers can reach, too.
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/comm/internal/store.h"
#include "lockstep/comm/rendezvous.h"
#include "lockstep/comm/test_ranks.h"

namespace lockstep::comm {
namespace {

using namespace test;
using namespace std::chrono_literals;

constexpr const char* kSecret = "of these tests alone";

launch::Launch rank_at(const MeetingPlace& place, int64_t rank) {
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
    const launch::Launch launch = rank_at(place, 0);
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

TEST(Rendezvous, NobodyWaitsLongerThanTheLaunchAllows) {
  MeetingPlace place;
  Patience patience({.limit = 300ms});
  const OpenStore open = open_store(rank_at(place, 0), patience);
  EXPECT_THAT(
      text_of_failure([&] { open.store->wait({"what a stranger took away"}, std::chrono::minutes(5)); }),
      testing::HasSubstr("what a stranger took away\" within 0.3 s"));
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
  const launch::Launch launch{.rank = 1, .size = 2, .address = "127.0.0.1", .port = port};
  const std::string text = text_of_failure([&] { join_group(launch, {}, {.waiting = short_one}); });
  EXPECT_THAT(text, testing::MatchesRegex(
                        "communication: rank 1 of 2 on .* gave up after 5.5 s of waiting for rank 0 at " +
                        place + ": Connection refused"));
  EXPECT_THAT(told,
              testing::ElementsAre("rank 1 of 2 waits for rank 0 at " + place + ": Connection refused"));
}

}  // namespace
}  // namespace lockstep::comm
