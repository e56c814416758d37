// When a custom loop ends because its validations get no better.
#include <algorithm>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/train/custom/learnables.h"
#include "lockstep/train/custom/test_loops.h"
#include "lockstep/train/custom/validate.h"

namespace lockstep::train {
namespace {

using namespace test;

TEST(CustomLoop, EndsWhenValidationsGetNoBetter) {
  const auto steps = [](pool::Worker& worker) {
    const BuiltModel model = build(worker, net(), halves(90), {.seed = 3});
    Sgdm sgdm(model.parameters(), {.learning_rate = 0.02});
    Patience patience(2);
    std::vector<double> accuracies;
    for (const auto& batch :
         data::MiniBatchQueue(halves(90), worker.share(),
                              {.mini_batch_size = 20, .shards = 5, .order = {.seed = 7}, .epochs = 20})) {
      sgdm.step(exchange(worker, loss_and_gradients(model, batch, loss_of(model))).gradients);
      const Validation validation = validate(model, halves(41), worker.comm());
      accuracies.push_back(validation.accuracy);
      if (patience.ends_after(validation)) break;
    }
    EXPECT_EQ(patience.best_accuracy(), *std::max_element(accuracies.begin(), accuracies.end()));
    EXPECT_FALSE(patience.is_best());
    return accuracies;
  };
  const std::vector<double> one = on_workers(1, steps);
  ASSERT_GE(one.size(), 3U);
  EXPECT_LT(one.size(), 100U) << "it never ended";
  EXPECT_LE(std::max(one.back(), one[one.size() - 2]), *std::max_element(one.begin(), one.end() - 2));
  EXPECT_EQ(on_workers(3, steps), one);
}

TEST(Patience, ALossThatIsNoNumberIsNoBetter) {
  Patience patience(2);
  EXPECT_FALSE(patience.ends_after({.loss = 1, .accuracy = 0.5}));
  EXPECT_TRUE(patience.is_best());
  EXPECT_FALSE(patience.ends_after({.loss = std::numeric_limits<double>::quiet_NaN(), .accuracy = 0.9}));
  EXPECT_TRUE(patience.ends_after({.loss = 1, .accuracy = 0.5}));
  EXPECT_EQ(patience.best_accuracy(), 0.5);
  EXPECT_THROW(Patience(0), Error);
}

}  // namespace
}  // namespace lockstep::train
