#include "lockstep/studio/sweep_news.h"

#include <gtest/gtest.h>

namespace lockstep::studio {
namespace {

Json sweep_of_three() {
  return {
      {"name", "search"},
      {"best", {{"trial", 1}}},
      {"rows", {{{"trial", 0}, {"steps", 5}}, {{"trial", 1}, {"steps", 6}}, {{"trial", 2}, {"steps", 7}}}}};
}

TEST(SweepNews, HaveOnlyWhatHasChanged) {
  SweepNews news;
  Json all = sweep_of_three();
  const Json first = news.answer(all, "");
  const std::string seen = first["seen"];
  EXPECT_FALSE(first.contains("since"));
  EXPECT_EQ(first["rows"].size(), 3u);
  EXPECT_EQ(news.answer(all, seen), (Json{{"seen", seen}, {"same", true}}));
  all["rows"][1]["steps"] = 60;
  all["rows"].push_back({{"trial", 3}, {"steps", 0}});
  all["count"] = 4;
  const Json second = news.answer(all, seen);
  EXPECT_EQ(second["since"], true);
  EXPECT_EQ(second["rows"].dump(), R"([{"trial":1,"steps":60},{"trial":3,"steps":0}])");
  EXPECT_EQ(second["count"], 4);
  EXPECT_FALSE(second.contains("name") || second.contains("best"));
  EXPECT_NE(second["seen"], seen);
  // Another page is further behind, or has an answer that is long forgotten.
  EXPECT_EQ(news.answer(all, seen), second);
  EXPECT_EQ(news.answer(all, "0123456789abcdef")["rows"].size(), 4u);
}

// As of a sweep whose best trial was restarted, or that was begun anew in the same folder.
TEST(SweepNews, AreAllWhereSomethingHasGone) {
  SweepNews news;
  Json all = sweep_of_three();
  const std::string seen = news.answer(all, "")["seen"];
  Json without = all;
  without.erase("best");
  EXPECT_FALSE(news.answer(without, seen).contains("since"));
  all["rows"].erase(all["rows"].begin());
  const Json fewer = news.answer(all, seen);
  EXPECT_FALSE(fewer.contains("since"));
  EXPECT_EQ(fewer["rows"].size(), 2u);
  EXPECT_EQ(fewer["name"], "search");
}

}  // namespace
}  // namespace lockstep::studio
