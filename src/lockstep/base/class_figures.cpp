#include "lockstep/base/class_figures.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {
namespace {

double share(int64_t part, int64_t whole) {
  return whole == 0 ? std::numeric_limits<double>::quiet_NaN()
                    : static_cast<double>(part) / static_cast<double>(whole);
}

double mean_of(const std::vector<ClassFigures>& rows, double ClassFigures::*figure) {
  double sum = 0;
  int64_t count = 0;
  for (const ClassFigures& row : rows) {
    if (std::isnan(row.*figure)) continue;
    sum += row.*figure;
    ++count;
  }
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

}  // namespace

std::vector<ClassFigures> class_figures(const ConfusionMatrix& confusion,
                                        const std::vector<std::string>& classes) {
  std::vector<ClassFigures> rows;
  for (size_t i = 0; i < classes.size(); ++i) {
    ClassFigures row{.name = classes[i], .right = confusion[i][i]};
    for (size_t j = 0; j < classes.size(); ++j) {
      row.samples += confusion[i][j];
      row.predicted += confusion[j][i];
    }
    row.precision = share(row.right, row.predicted);
    row.recall = share(row.right, row.samples);
    row.f1 = share(2 * row.right, row.samples + row.predicted);
    rows.push_back(std::move(row));
  }
  return rows;
}

ClassFigures mean_figures(const std::vector<ClassFigures>& rows) {
  ClassFigures mean{.name = "mean"};
  for (const ClassFigures& row : rows) {
    mean.samples += row.samples;
    mean.right += row.right;
    mean.predicted += row.predicted;
  }
  mean.precision = mean_of(rows, &ClassFigures::precision);
  mean.recall = mean_of(rows, &ClassFigures::recall);
  mean.f1 = mean_of(rows, &ClassFigures::f1);
  return mean;
}

std::vector<Confusion> confusions(const ConfusionMatrix& confusion) {
  std::vector<Confusion> pairs;
  for (size_t i = 0; i < confusion.size(); ++i) {
    for (size_t j = 0; j < confusion[i].size(); ++j) {
      if (i != j && confusion[i][j] > 0) pairs.push_back({confusion[i][j], i, j});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Confusion& a, const Confusion& b) { return a.count > b.count; });
  return pairs;
}

}  // namespace lockstep
