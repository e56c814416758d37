#include "lockstep/train/step/pass_size.h"

#include <functional>
#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

// The number of samples after many steps of a worker that has so many, in passes that take seconds(samples).
int64_t size_for(int64_t own, const std::function<double(int64_t)>& seconds, int64_t shard = 4) {
  PassSize size(64, 16);
  for (int step = 0; step < 40; ++step) {
    const int64_t pass = std::max(shard, std::min(own, size.samples()));
    for (int64_t left = own; left > 0; left -= pass) size.note(pass, seconds(pass));
    size.end_step();
  }
  return size.samples();
}

double reads_weights(int64_t samples) { return 1 + 0.1 * static_cast<double>(samples); }

TEST(PassSize, TakesTheFastest) {
  EXPECT_EQ(size_for(64, reads_weights), 64);
  EXPECT_EQ(size_for(64, [](int64_t samples) { return (1 + 0.002 * samples) * samples; }), 16);
  EXPECT_EQ(size_for(64, [](int64_t samples) { return samples == 32 ? samples : 1.1 * samples; }), 32);
}

TEST(PassSize, StaysWhereTheDifferenceIsSmall) {
  EXPECT_EQ(size_for(64, [](int64_t samples) { return samples > 32 ? 1.01 * samples : samples; }), 64);
}

TEST(PassSize, TriesWhatIsMuchSlowerOnce) {
  PassSize size(64, 16);
  int64_t slow = 0;
  for (int step = 0; step < 40; ++step) {
    const int64_t pass = size.samples();
    slow += pass < 64;
    for (int64_t left = 64; left > 0; left -= pass) size.note(pass, pass < 64 ? pass : 0.5 * pass);
    size.end_step();
  }
  EXPECT_EQ(slow, 1);
  EXPECT_EQ(size.samples(), 64);
}

TEST(PassSize, OfAWorkerWithFewSamplesIsThatOfItsPasses) {
  EXPECT_EQ(size_for(32, reads_weights), 32);
  EXPECT_EQ(size_for(8, reads_weights), 64) << "a pass has 8 with any limit";
}

TEST(PassSize, IsLeftAloneByLargeShards) { EXPECT_EQ(size_for(128, reads_weights, 64), 64); }

TEST(PassSize, MeasuresNothingBetweenEqualNumbers) {
  PassSize size(64, 64);
  for (int step = 0; step < 20; ++step) {
    EXPECT_EQ(size.samples(), 64);
    size.note(64, 1);
    size.end_step();
  }
}

}  // namespace
}  // namespace lockstep::train
