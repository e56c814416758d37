#include "lockstep/cli/memory_gate.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

// One that is stopped does not wait.
class MemoryGates : public testing::Test {
 protected:
  MemoryGates() { stop_.request_stop(); }
  bool enters(const MemoryNeed& need) { return gate_.enter(need, stop_.get_token()); }

  double images_ = 0;
  MemoryGate gate_{100, [this] { return images_; }};

 private:
  std::stop_source stop_;
};

TEST_F(MemoryGates, LetInWhatFitsAndOneInAnyCase) {
  EXPECT_TRUE(enters({.own = 500}));
  EXPECT_FALSE(enters({.own = 1}));
  gate_.leave({.own = 500});
  EXPECT_TRUE(enters({.own = 60}));
  EXPECT_TRUE(enters({.own = 40}));
  EXPECT_FALSE(enters({.own = 1}));
  gate_.leave({.own = 60});
  EXPECT_TRUE(enters({.own = 60}));
}

TEST_F(MemoryGates, CountSharedImagesOnce) {
  EXPECT_TRUE(enters({.own = 30, .images = 30}));
  EXPECT_FALSE(enters({.own = 50, .images = 30})) << "the first one is about to open them";
  images_ = 30;
  EXPECT_TRUE(enters({.own = 40, .images = 30}));
  gate_.leave({.own = 40, .images = 30});
  images_ = 50;
  EXPECT_FALSE(enters({.own = 40})) << "others are kept, too";
}

}  // namespace
}  // namespace lockstep::cli
