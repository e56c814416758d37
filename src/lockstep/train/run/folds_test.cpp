#include "lockstep/train/run/folds.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

TEST(Folds, SpreadIsNumPysMeanAndDeviation) {
  const Spread spread = spread_of({0.9, 0.95, 1.0, 0.95});
  EXPECT_NEAR(spread.mean, 0.95, 1e-12);
  EXPECT_NEAR(spread.deviation, 0.035355339059327376, 1e-12);  // numpy.std([0.9, 0.95, 1.0, 0.95])
  EXPECT_TRUE(std::isnan(spread_of({}).mean));
}

TEST(Folds, OneRunIsRefusedWithoutItsNumber) {
  Options options;
  options.validation_folds = 3;
  TrainingRequest request;
  request.folder = "nowhere";
  try {
    fit(request, options);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("several runs"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace lockstep::train
