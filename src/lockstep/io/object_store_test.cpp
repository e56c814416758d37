// Reads of an object store that does not always answer.
#include <memory>
#include <stop_token>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/stop_scope.h"
#include "lockstep/io/object_store.h"
#include "lockstep/io/test_stores.h"

namespace lockstep::io {
namespace {

using test::failure;
using testing::AllOf;
using testing::HasSubstr;

// A server that answers only from the n-th time on.
class AwayAtFirst : public ByteStore {
 public:
  explicit AwayAtFirst(int failures) : failures_(failures) {}
  const std::string& name() const override { return name_; }
  std::string kind() const override { return "test"; }
  void list(Sizes, const Visit&) const override { answer(); }
  std::optional<int64_t> size_of(std::string_view) const override { return answer(), 5; }
  std::string read(FileName, int64_t) const override { return answer(), "bytes"; }
  size_t read_at(FileName, int64_t, std::span<char>) const override { return answer(), 0; }
  int64_t parallel_reads() const override { return 8; }
  mutable int calls = 0;

 private:
  void answer() const {
    if (calls++ < failures_) throw Error(ErrorCode::communication, "away");
  }
  const int failures_;
  const std::string name_ = "test://x";
};

TEST(Patience, ReadsOutlastAServerThatComesBack) {
  const auto server = std::make_shared<AwayAtFirst>(2);
  EXPECT_EQ(with_patience(server)->read({"a"}, 10), "bytes");
  EXPECT_EQ(server->calls, 3);
}

TEST(Patience, HasAnEndAndAStop) {
  const auto gone = std::make_shared<AwayAtFirst>(1000);
  EXPECT_THAT(failure([&] { with_patience(gone, 0)->read({"a"}, 10); }),
              AllOf(HasSubstr("away"), HasSubstr("retried for")));
  EXPECT_THAT(failure([&] { with_patience(gone)->list(Sizes::wanted, {}); }), HasSubstr("away"));
  std::stop_source stop;
  stop.request_stop();
  const StopScope scope(stop.get_token());
  EXPECT_THAT(failure([&] { with_patience(gone)->read({"a"}, 10); }), HasSubstr("stopped while"));
}

}  // namespace
}  // namespace lockstep::io
