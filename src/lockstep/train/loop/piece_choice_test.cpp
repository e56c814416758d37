#include "lockstep/train/loop/piece_choice.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

Plan plan_of_workers(int64_t workers) {
  Plan plan;
  plan.step.mini_batch_size = 128;
  plan.step.shards = 32;
  plan.machine.workers = workers;
  return plan;
}

// Windows of 20 steps of 0.05 seconds.
class Windows {
 public:
  explicit Windows(const Plan& plan, Takeover takeover = Takeover::allowed)
      : choice_(plan, {0, 1}, takeover) {}

  // The choice after so many windows in which the workers take so long.
  OwnShards after(int64_t windows, const std::vector<double>& seconds) {
    OwnShards own = OwnShards::together;
    for (int64_t step = 0; step < 20 * windows; ++step) own = choice_.end_step(seconds, 128, 0.0501);
    return own;
  }

 private:
  PieceChoice choice_;
};

const std::vector<double> kAlike{0.09, 0.1}, kUnequal{0.05, 0.1};

TEST(PieceChoice, EquallyFastWorkersKeepTheirShardsTogether) {
  EXPECT_EQ(Windows(plan_of_workers(2)).after(20, kAlike), OwnShards::together);
}

TEST(PieceChoice, HalvesStayWhereStepsAreShorter) {
  Windows windows(plan_of_workers(2));
  EXPECT_EQ(windows.after(1, kUnequal), OwnShards::together) << "the first steps are slower";
  EXPECT_EQ(windows.after(1, kUnequal), OwnShards::halved);
  EXPECT_EQ(windows.after(2, {0.07, 0.075}), OwnShards::halved);
  EXPECT_EQ(windows.after(1, {0.07, 0.075}), OwnShards::together) << "judged again";
  EXPECT_EQ(windows.after(1, kUnequal), OwnShards::halved);
  EXPECT_EQ(windows.after(4, {0.07, 0.075}), OwnShards::halved);
  EXPECT_EQ(windows.after(1, {0.07, 0.075}), OwnShards::together);
  EXPECT_EQ(windows.after(1, kAlike), OwnShards::together) << "the other program has ended";
}

TEST(PieceChoice, HalvesAreGivenUpWhereTheyAreSlower) {
  Windows windows(plan_of_workers(2));
  EXPECT_EQ(windows.after(2, kUnequal), OwnShards::halved);
  EXPECT_EQ(windows.after(1, {0.05, 0.098}), OwnShards::together);
  EXPECT_EQ(windows.after(2, kUnequal), OwnShards::together) << "not at once again";
  EXPECT_EQ(windows.after(1, kUnequal), OwnShards::halved);
}

TEST(PieceChoice, UnequalPartsAreNoUnequalWorkers) {
  EXPECT_EQ(Windows(plan_of_workers(6)).after(5, {0.06, 0.06, 0.05, 0.05, 0.05, 0.05}), OwnShards::together);
  Plan plan = plan_of_workers(3);
  plan.machine.rank_loads = {16, 8, 8};
  EXPECT_EQ(Windows(plan).after(5, {0.1, 0.05, 0.05}), OwnShards::together);
}

TEST(PieceChoice, NothingIsMeasuredWhereNothingIsTakenOver) {
  EXPECT_EQ(Windows(plan_of_workers(2), Takeover::never).after(5, kUnequal), OwnShards::together);
  Plan averages = plan_of_workers(2);
  averages.exchange.kind = ExchangeKind::average;
  EXPECT_EQ(Windows(averages).after(5, kUnequal), OwnShards::together);
}

}  // namespace
}  // namespace lockstep::train
