#include "lockstep/train/planning/class_weights.h"

#include <algorithm>
#include <numeric>

namespace lockstep::train {

std::vector<int64_t> count_classes(const data::Dataset& dataset) {
  const data::Datastore& store = dataset.store();
  std::vector<int64_t> counts(dataset.classes().size());
  const auto add = [&](int64_t label) {
    if (label >= 0) ++counts.at(static_cast<size_t>(label));
  };
  for (int64_t i = 0; i < dataset.size(); ++i) {
    if (store.labels_time_steps()) {
      for (const int64_t label : store.time_step_labels(i)) add(label);
    } else {
      add(store.label(i));
    }
  }
  return counts;
}

std::vector<double> balanced_weights(const std::vector<int64_t>& counts) {
  const auto all = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  const auto classes = static_cast<double>(
      std::count_if(counts.begin(), counts.end(), [](int64_t count) { return count > 0; }));
  std::vector<double> weights;
  for (const int64_t count : counts)
    weights.push_back(count == 0 ? 0 : all / (classes * static_cast<double>(count)));
  return weights;
}

}  // namespace lockstep::train
