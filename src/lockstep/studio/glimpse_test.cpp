#include "lockstep/studio/glimpse.h"

#include <fstream>

#include <gmock/gmock.h>

#include "lockstep/base/test_folder.h"
#include "lockstep/studio/run_log.h"

namespace lockstep::studio {
namespace {

// About 33 MB of steps; the loss is the step.
void write_long_log(const std::filesystem::path& run) {
  std::filesystem::create_directories(run / "events");
  std::ofstream log(run / "events" / "rank-0-attempt-0.jsonl");
  log << R"({"kind":"plan","step":0,"time":999,"values":{"network":"lenet","steps_per_epoch":10}})"
      << "\n";
  std::string padding = "1";
  for (int i = 0; i < 1000; ++i) padding += ",1";
  for (int step = 1; step <= 16'500; ++step) {
    log << R"({"kind":"step","step":)" << step << R"(,"epoch":1,"time":)" << 1000 + step
        << R"(,"values":{"loss":)" << step << R"(,"shard_workers":[)" << padding << "]}}\n";
  }
  log << R"({"kind":"end","step":16500,"time":20000,"values":{"reason":"finished"}})"
      << "\n";
}

Points loss_of(RunLog& log) {
  return log.curve({.name = "step.loss", .window = {.from = 0, .to = 1e9, .columns = 1'000'000}})->raw;
}

TEST(Glimpse, ShowsAllOfALongLogBeforeItIsRead) {
  const lockstep::test::TemporaryFolder folder;
  const auto run = folder.path() / "run";
  write_long_log(run);
  RunLog log(run);
  log.open(std::chrono::seconds(60));
  EXPECT_FALSE(log.is_complete());
  const Points coarse = loss_of(log);
  EXPECT_EQ(coarse.x.front(), 1);
  EXPECT_EQ(coarse.x.back(), 16'500);
  EXPECT_GT(coarse.count, 400);
  EXPECT_LT(coarse.count, 5'000);
  EXPECT_EQ(coarse.x, coarse.y);
  for (size_t i = 1; i < coarse.x.size(); ++i) EXPECT_LT(coarse.x[i] - coarse.x[i - 1], 100);
  EXPECT_EQ(log.said()["plan"]["network"], "lenet");
  EXPECT_EQ(log.said()["end"]["reason"], "finished");
  while (log.read_for(std::chrono::seconds(60))) {
  }
  EXPECT_TRUE(log.is_complete());
  EXPECT_EQ(loss_of(log).count, 16'500);
}

TEST(Glimpse, AShortLogHasNone) {
  const lockstep::test::TemporaryFolder folder;
  EXPECT_FALSE(glimpse_of(folder.path()));
  std::filesystem::create_directories(folder.path() / "events");
  std::ofstream(folder.path() / "events" / "rank-0-attempt-0.jsonl") << "{}\n";
  EXPECT_FALSE(glimpse_of(folder.path()));
}

}  // namespace
}  // namespace lockstep::studio
