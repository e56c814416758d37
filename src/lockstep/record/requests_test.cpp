#include "lockstep/record/requests.h"

#include <chrono>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/test_folder.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::record {
namespace {

using testing::HasSubstr;

class RequestsTest : public testing::Test {
 protected:
  RequestWatch watch() {
    return RequestWatch(
        run_,
        [this](const Request& request) {
          const std::lock_guard lock(mutex_);
          taken_.push_back(request);
        },
        [this](const std::string& reason) {
          const std::lock_guard lock(mutex_);
          refused_.push_back(reason);
        });
  }
  // Waits for so many answers.
  bool answered(size_t taken, size_t refused) {
    constexpr int kMostLooks = 1000;
    for (int i = 0; i < kMostLooks; ++i) {
      {
        const std::lock_guard lock(mutex_);
        if (taken_.size() == taken && refused_.size() == refused) return true;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path& run_ = temporary_.path();
  std::mutex mutex_;
  std::vector<Request> taken_;
  std::vector<std::string> refused_;
};

TEST_F(RequestsTest, AreTakenInTheirOrder) {
  const RequestWatch watching = watch();
  Request request;
  request.request = RequestKind::report;
  request.every = 5;
  const std::string first = make_request(run_, request);
  request.request = RequestKind::finish;
  const std::string second = make_request(run_, request);
  ASSERT_TRUE(answered(2, 0));
  EXPECT_EQ(taken_[0].request, RequestKind::report);
  EXPECT_EQ(taken_[0].every, 5);
  EXPECT_EQ(taken_[0].id, first);
  EXPECT_THAT(taken_[0].from, HasSubstr("@"));
  EXPECT_EQ(taken_[1].request, RequestKind::finish);
  EXPECT_EQ(taken_[1].id, second);
}

TEST_F(RequestsTest, AreRemovedWhenTaken) {
  const RequestWatch watching = watch();
  const std::string id = make_request(run_, {.from = {}});
  ASSERT_TRUE(answered(1, 0));
  while (!is_taken(run_, id)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(std::filesystem::is_empty(RunPaths{run_}.requests()));
}

TEST_F(RequestsTest, OfAnEarlierAttemptAreDropped) {
  const std::string id = make_request(run_, {.from = {}});
  EXPECT_FALSE(is_taken(run_, id));
  const RequestWatch watching = watch();
  EXPECT_TRUE(is_taken(run_, id));
  EXPECT_TRUE(answered(0, 0));
}

TEST_F(RequestsTest, DamagedOnesAreRefused) {
  const RequestWatch watching = watch();
  std::filesystem::create_directories(RunPaths{run_}.requests());
  temporary_.write("requests/1-a.json", std::string(10'000, 'x'));
  temporary_.write("requests/2-b.json", "{\"request\": \"explode\"}");
  temporary_.write("requests/3-c.json", std::string("\xff\xfe\0\1", 4));
  std::filesystem::create_symlink("/etc/passwd", RunPaths{run_}.requests() / "4-d.json");
  ASSERT_TRUE(answered(0, 4));
  make_request(run_, {.from = {}});
  ASSERT_TRUE(answered(1, 4));
}

}  // namespace
}  // namespace lockstep::record
