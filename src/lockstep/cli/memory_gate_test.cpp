#include "lockstep/cli/memory_gate.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

// One that is stopped does not wait.
class MemoryGates : public testing::Test {
 protected:
  MemoryGates() { stop_.request_stop(); }
  bool enters(const MemoryNeed& need) { return gate_.enter(need, stop_.get_token()); }

  MemoryGate gate_{100};

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

TEST_F(MemoryGates, CountASetOfImagesOnceUntilItsLastUserLeaves) {
  const MemoryNeed need{.own = 20, .images = {{"digits", 40}}};
  EXPECT_TRUE(enters(need));
  EXPECT_TRUE(enters(need));
  EXPECT_TRUE(enters(need));
  EXPECT_FALSE(enters({.own = 1}));
  gate_.leave(need);
  gate_.leave(need);
  EXPECT_FALSE(enters({.own = 41})) << "the images are still there";
  EXPECT_TRUE(enters({.own = 40}));
  gate_.leave(need);
  EXPECT_TRUE(enters({.own = 60}));
}

TEST_F(MemoryGates, AddSetsOfDifferentImages) {
  const MemoryNeed small{.own = 1, .images = {{"20x20", 40}, {"held out", 10}}};
  EXPECT_TRUE(enters(small));
  EXPECT_FALSE(enters({.own = 1, .images = {{"28x28", 50}}}));
  EXPECT_TRUE(enters({.own = 1, .images = {{"28x28", 38}, {"held out", 10}}}));
  gate_.leave(small);
  EXPECT_TRUE(enters({.own = 1, .images = {{"24x24", 50}}})) << "the held-out images are still counted once";
  EXPECT_FALSE(enters({.own = 1}));
}

}  // namespace
}  // namespace lockstep::cli
