// The quality of a classifier for each class, from its confusion matrix.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Counts of samples, [true class][answer].
using ConfusionMatrix = std::vector<std::vector<int64_t>>;

/// The number of classes up to which a training counts a matrix, and a page shows one.
inline constexpr size_t kMostInMatrix = 150;

struct ClassFigures {
  std::string name;
  int64_t samples = 0;    ///< of this class
  int64_t right = 0;      ///< of these, predicted as this class
  int64_t predicted = 0;  ///< predictions of this class
  double precision = 0;   ///< right / predicted; NaN without a prediction
  double recall = 0;      ///< right / samples; NaN without a sample
  double f1 = 0;          ///< harmonic mean of the two, 0 if one is missing; NaN without both
};

/// A row for each class. `classes` has as many names as `confusion` rows and columns.
std::vector<ClassFigures> class_figures(const ConfusionMatrix& confusion,
                                        const std::vector<std::string>& classes);

/// Sums of the counts, and for each figure the mean over the classes that have it, all with the same weight.
/// Its name is "mean".
ClassFigures mean_figures(const std::vector<ClassFigures>& rows);

struct Confusion {
  int64_t count = 0;
  size_t truth = 0;
  size_t answer = 0;
};

/// The wrong pairs that occur, the most frequent first.
std::vector<Confusion> confusions(const ConfusionMatrix& confusion);

}  // namespace lockstep
