#include "lockstep/train/planning/precision_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lockstep::train {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kHeldOut = 400;  // of which four fifths right have a standard error of 0.02

/// float32 with 100 images/s and four fifths right, against `half`.
PrecisionChoice against(const PrecisionProbe& half) { return choose_precision({100, 0.8}, half, kHeldOut); }

void expect(const PrecisionChoice& choice, Precision precision, const std::string& reason) {
  EXPECT_EQ(choice.precision, precision) << choice.reason;
  EXPECT_THAT(choice.reason, testing::HasSubstr(reason));
}

TEST(PrecisionProbe, TakesBf16WhereItIsFasterAndAsGood) {
  expect(against({150, 0.8}), Precision::bf16_mixed,
         "1.50 times as fast and as accurate: held-out accuracy 0.8000 against 0.8000");
  expect(against({150, 0.95}), Precision::bf16_mixed, "as accurate");
}

TEST(PrecisionProbe, AllowsOneStandardError) {
  expect(against({150, 0.781}), Precision::bf16_mixed, "as accurate");
  expect(against({150, 0.779}), Precision::single,
         "1.50 times as fast, but less accurate: held-out accuracy 0.7790 against 0.8000");
}

TEST(PrecisionProbe, AllowsMoreWhereFewImagesAreHeldOut) {
  expect(choose_precision({100, 0.8}, {150, 0.7}, 9), Precision::bf16_mixed, "as accurate");
  expect(choose_precision({100, 0.8}, {150, 0.7}, 40), Precision::single, "less accurate");
}

TEST(PrecisionProbe, WantsATenthMoreSpeed) {
  expect(against({111, 0.8}), Precision::bf16_mixed, "1.11 times as fast and");
  expect(against({109, 0.9}), Precision::single, "1.09 times as fast, which is too little");
  expect(against({50, 0.7}), Precision::single, "0.50 times as fast, which is too little");
}

TEST(PrecisionProbe, HasNoStandardErrorWhereAllOrNoneAreRight) {
  expect(choose_precision({100, 1}, {150, 1}, kHeldOut), Precision::bf16_mixed, "as accurate");
  expect(choose_precision({100, 1}, {150, 0.9975}, kHeldOut), Precision::single, "less accurate");
  expect(choose_precision({100, 0}, {150, 0}, kHeldOut), Precision::bf16_mixed, "as accurate");
}

TEST(PrecisionProbe, StaysWithFloat32WhereBf16IsLost) {
  expect(against({0, kNan}), Precision::single, "NaN or infinite");
  expect(against({150, kNan}), Precision::single, "NaN or infinite");
  expect(against({150, 0}), Precision::single, "less accurate");
}

TEST(PrecisionProbe, StaysWithFloat32WhereAFigureIsMissing) {
  for (const double speed : {0.0, kNan}) {
    expect(choose_precision({speed, 0.8}, {150, 0.8}, kHeldOut), Precision::single, "could not be measured");
    expect(against({speed, 0.8}), Precision::single, "too little");
  }
  expect(choose_precision({100, kNan}, {150, 0.8}, kHeldOut), Precision::single, "less accurate");
}

}  // namespace
}  // namespace lockstep::train
