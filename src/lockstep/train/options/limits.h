// The greatest values of options: far beyond any run, and so small that steps times a mini-batch, and epochs
// times the steps of one, stay within int64_t.
#pragma once

namespace lockstep::train {

constexpr double kMostEpochs = 1e9;
constexpr double kMostSteps = 1e11;
constexpr double kMostSamples = 1e9;
constexpr double kMostFolds = 1000;
constexpr double kMostLoad = 1000;
constexpr double kMostTimeSteps = 1e6;
constexpr double kMostSeconds = 1e9;  // 31 years
constexpr double kMostRate = 1e30;    // as a float32, and twenty million times it, is still a number
constexpr double kMostSeed = 0x1p63;

}  // namespace lockstep::train
