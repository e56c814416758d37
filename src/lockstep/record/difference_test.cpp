#include "lockstep/record/difference.h"

#include <gtest/gtest.h>

namespace lockstep::record {
namespace {

std::vector<Event> hashes(const std::vector<std::pair<int64_t, std::string>>& pairs) {
  std::vector<Event> events{{.step = 1, .kind = "step", .values = {{"loss", 1.0}}}};
  for (const auto& [step, hash] : pairs)
    events.push_back({.step = step, .kind = "hash", .values = {{"weights", hash}}});
  return events;
}

TEST(Difference, NamesTheFirstStepThatDiffers) {
  const auto a = hashes({{10, "aa"}, {20, "bb"}, {30, "cc"}, {40, "dd"}});
  const auto b = hashes({{10, "aa"}, {20, "bb"}, {25, "xx"}, {30, "c0"}, {40, "d0"}});
  const auto difference = first_difference(a, b);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->step, 30);
  EXPECT_EQ(difference->last_equal_step, 20);
  EXPECT_EQ(difference->hash_a, "cc");
  EXPECT_EQ(difference->hash_b, "c0");
  EXPECT_EQ(common_hash_steps(a, b), 4);
}

TEST(Difference, EqualRunsHaveNone) {
  const auto a = hashes({{10, "aa"}, {20, "bb"}});
  EXPECT_FALSE(first_difference(a, a));
  EXPECT_FALSE(first_difference(a, hashes({{15, "zz"}})));
  EXPECT_EQ(common_hash_steps(a, hashes({{15, "zz"}})), 0);
}

}  // namespace
}  // namespace lockstep::record
