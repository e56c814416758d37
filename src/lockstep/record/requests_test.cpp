#include "lockstep/base/test_folder.h"
#include "lockstep/record/requests.h"

#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <fstream>
#include <mutex>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/record/test_process.h"

namespace lockstep::record {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Clock = std::chrono::steady_clock;

class RequestsTest : public testing::Test {
 protected:
  void watch() {
    watch_.emplace(run_);
    watch_->begin(
        [this](const Request& request) {
          const std::lock_guard lock(mutex_);
          taken_.push_back(request);
        },
        [this](const std::string& reason) {
          const std::lock_guard lock(mutex_);
          refused_.push_back(reason);
        },
        [this] { ++gone_; });
  }
  // Waits until so many requests were answered, and a moment for more than these.
  void wait_for(size_t answers) {
    const auto end = Clock::now() + std::chrono::seconds(10);
    while (answered() < answers && Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    EXPECT_EQ(answered(), answers);
    watch_.reset();
  }
  size_t answered() {
    const std::lock_guard lock(mutex_);
    return taken_.size() + refused_.size();
  }
  std::filesystem::path put(const std::string& name, const std::string& bytes = R"({"request":"finish"})") {
    return temporary_.write("requests/" + name, bytes);
  }

  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path& run_ = temporary_.path();
  std::mutex mutex_;
  std::vector<Request> taken_;
  std::vector<std::string> refused_;
  std::atomic<int> gone_ = 0;
  std::optional<RequestWatch> watch_;
};

TEST_F(RequestsTest, AreTakenInTheirOrderAndSoon) {
  watch();
  const std::string first =
      make_request(run_, {.request = RequestKind::report, .every = 5, .from = "ann@here"});
  const std::string second = make_request(run_, {.request = RequestKind::checkpoint});
  const std::string third = make_request(run_, {.request = RequestKind::stop});
  const auto start = Clock::now();
  while (!is_taken(run_, third) && Clock::now() - start < std::chrono::seconds(10))
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(300));
  wait_for(3);
  EXPECT_EQ(taken_[0].id, first);
  EXPECT_EQ(taken_[0].request, RequestKind::report);
  EXPECT_EQ(taken_[0].every, 5);
  EXPECT_EQ(taken_[0].from, "ann@here");
  EXPECT_EQ(taken_[1].id, second);
  EXPECT_EQ(taken_[2].id, third);
  EXPECT_THAT(taken_[2].from, HasSubstr("@"));
  EXPECT_TRUE(std::filesystem::is_empty(run_ / "requests"));
}

TEST_F(RequestsTest, OfAnEarlierAttemptAreRemoved) {
  const std::string early = make_request(run_, {.request = RequestKind::stop});
  watch();
  EXPECT_TRUE(is_taken(run_, early));
  wait_for(0);
}

// Of somebody who asks while the run reads its data.
TEST_F(RequestsTest, WaitForARunThatPrepares) {
  RequestWatch prepared(run_);
  const std::string asked = make_request(run_, {.request = RequestKind::stop});
  EXPECT_FALSE(is_taken(run_, asked));
  std::atomic<int> taken = 0;
  prepared.begin([&](const Request& request) { taken += request.id == asked ? 1 : 0; },
                 [](const std::string&) {});
  const auto end = Clock::now() + std::chrono::seconds(10);
  while (taken == 0 && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(taken, 1);
}

TEST_F(RequestsTest, ARequestOfALaterVersionIsReadAsFarAsItIsKnown) {
  watch();
  put("a.json", R"({"request":"checkpoint","why":{"a":1}})");
  wait_for(1);
  ASSERT_THAT(taken_, SizeIs(1));
  EXPECT_EQ(taken_[0].request, RequestKind::checkpoint);
}

TEST_F(RequestsTest, ARequestThatIsBeingWrittenIsWaitedFor) {
  watch();
  put("a.json", "");
  std::this_thread::sleep_for(std::chrono::milliseconds(120));
  put("a.json");
  wait_for(1);
  EXPECT_THAT(taken_, SizeIs(1));
}

TEST_F(RequestsTest, JunkIsRefusedAndRemoved) {
  watch();
  size_t count = 0;
  for (const std::string& junk :
       {std::string(), std::string("{}"), std::string("[]"), std::string("5"), std::string("null"),
        std::string("{\"request\":\"explode\"}"), std::string("{\"request\":5}"),
        std::string("{\"request\":\"stop\""), std::string("{\"request\":\"report\",\"every\":0}"),
        std::string("\0\xff\x01", 3), std::string(5000, '['),
        "{\"request\":\"stop\",\"from\":\"" + std::string(1 << 20, 'x') + "\"}"})
    put("junk-" + std::to_string(count++) + ".json", junk);
  wait_for(count);
  EXPECT_THAT(taken_, IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(run_ / "requests"));
}

TEST_F(RequestsTest, WhatIsNoFileIsRefusedOnceAndNotWaitedFor) {
  const std::filesystem::path precious = temporary_.write("precious.json", R"({"request":"stop"})");
  watch();
  const std::filesystem::path folder = run_ / "requests";
  std::filesystem::create_symlink(precious, folder / "link.json");
  std::filesystem::create_symlink("loop.json", folder / "loop.json");
  ASSERT_EQ(::mkfifo((folder / "pipe.json").c_str(), 0600), 0);
  put("full.json/inside", "x");  // cannot be removed
  put("other.txt", "is nobody's request");
  wait_for(4);
  EXPECT_THAT(taken_, IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(precious));
  EXPECT_FALSE(std::filesystem::exists(folder / "pipe.json"));
  EXPECT_TRUE(std::filesystem::exists(folder / "full.json" / "inside"));
  EXPECT_TRUE(std::filesystem::exists(folder / "other.txt"));
}

TEST_F(RequestsTest, AFolderThatIsALinkHasNoRequests) {
  const std::filesystem::path precious = temporary_.write("others/precious.json", R"({"request":"stop"})");
  std::filesystem::create_directory_symlink("others", run_ / "requests");
  watch();
  wait_for(0);
  EXPECT_TRUE(std::filesystem::exists(precious));
}

TEST_F(RequestsTest, AFolderThatIsRemovedIsToldOnce) {
  watch();
  wait_for(0);
  EXPECT_EQ(gone_, 0);
  watch();
  std::filesystem::remove_all(run_);
  const auto end = Clock::now() + std::chrono::seconds(10);
  while (gone_ == 0 && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  wait_for(0);
  EXPECT_EQ(gone_, 1);
}

TEST_F(RequestsTest, OnlyTheOwnerAndRootMayAsk) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to other users";
  watch();
  const auto give = [&](const std::string& name, uid_t user) {
    const std::filesystem::path other = temporary_.write(name, R"({"request":"stop"})");
    ASSERT_EQ(::chown(other.c_str(), user, user), 0);
    std::filesystem::rename(other, run_ / "requests" / name);
  };
  give("a.json", test::kNobody);
  give("b.json", 0);
  wait_for(2);
  ASSERT_THAT(refused_, SizeIs(1));
  EXPECT_THAT(refused_[0], HasSubstr("is not from the owner of the run"));
  ASSERT_THAT(taken_, SizeIs(1));
  EXPECT_EQ(taken_[0].id, "b");

  // The owner of the folder asks a run of root.
  ASSERT_EQ(::chown(run_.c_str(), test::kNobody, test::kNobody), 0);
  watch();
  give("c.json", test::kNobody);
  wait_for(3);
  EXPECT_EQ(taken_.back().id, "c");
}

TEST_F(RequestsTest, WhoMayNotWriteThereIsTold) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  watch();
  std::filesystem::permissions(run_, std::filesystem::perms(0755));
  watch_.reset();
  const int code = test::in_child([&] {
    if (::setuid(test::kNobody) != 0) return 2;
    try {
      make_request(run_, {});
      return 1;
    } catch (const Error& error) {
      return error.code() == ErrorCode::io ? 0 : 3;
    }
  });
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace lockstep::record
