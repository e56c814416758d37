#include "lockstep/train/planning/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <vector>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/data/centre.h"
#include "lockstep/train/planning/class_weights.h"

namespace lockstep::train {
namespace {

// Evenly over the samples in the order of their labels: every n-th sample of the data may always be of the
// same class. The samples that are taken keep their order.
std::vector<int64_t> spread_over_labels(const data::Datastore& store, int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(store.size())), labels, taken;
  std::iota(all.begin(), all.end(), 0);
  for (const int64_t index : all) labels.push_back(store.label(index));
  std::ranges::stable_sort(all, {}, [&](int64_t index) { return labels[static_cast<size_t>(index)]; });
  for (int64_t i = 0; i < count; ++i)
    taken.push_back(all[static_cast<size_t>(part_of(store.size(), count, i).begin)]);
  std::ranges::sort(taken);
  return taken;
}

// Whether the labels have so few samples that one of each is a much larger share.
bool takes_one_of_each(const Datasets& sets, double share) {
  const auto held_out = static_cast<double>(sets.validation.size());
  return held_out > 1.5 * share * (held_out + static_cast<double>(sets.train.size()));
}

// What the reason says of labels with one sample, which stays in the training part. Parts of sequences with a
// label for each time step are not drawn by labels.
std::string without_held_out(const Datasets& sets) {
  if (sets.train.store().labels_time_steps()) return "";
  const std::vector<int64_t> trained = count_classes(sets.train), held_out = count_classes(sets.validation);
  int64_t count = 0;
  for (size_t i = 0; i < trained.size(); ++i) count += trained[i] > 0 && held_out[i] == 0;
  if (count == 0) return "";
  return "; " + counted(count, "label") + " with one sample " + (count == 1 ? "has" : "have") + " none";
}

}  // namespace

std::pair<data::Dataset, data::Dataset> split_off_held_out(const data::Dataset& dataset,
                                                           const Options& options) {
  if (options.validation_folds > 0)
    return dataset.split_fold(options.validation_folds, options.fold - 1, {.seed = options.seed});
  if (options.validation_count_per_class > 0) {
    auto [held_out, rest] =
        dataset.split_by_count(options.validation_count_per_class, {.seed = options.seed});
    return {rest, held_out};
  }
  return dataset.split(1 - options.validation_split, {.seed = options.seed});
}

int64_t limited_batches(double limit, int64_t all) {
  if (limit == 0) return all;
  const double wanted = limit < 1 ? std::round(limit * static_cast<double>(all)) : limit;
  return std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, std::max<int64_t>(1, all));
}

void limit_samples(Datasets& sets, double limit, int64_t mini_batch_size) {
  if (limit == 0) return;
  for (data::Dataset* set : {&sets.train, &sets.validation, &sets.test}) {
    if (set->empty()) continue;
    const int64_t all = set->size();
    const int64_t kept = limited_batches(limit, divided_up(all, mini_batch_size)) * mini_batch_size;
    if (kept >= all) continue;
    *set = set->subset(spread_over_labels(set->store(), kept));
    if (set != &sets.test) sets.whole = {};  // of which it is a direct part no more
  }
}

std::string hold_out(Datasets& sets, const Options& options, const DataPlan& data) {
  const int64_t of_each = options.validation_count_per_class, folds = options.validation_folds;
  if (!sets.validation.empty()) {
    if (of_each > 0)
      throw Error(ErrorCode::invalid_option,
                  "--validation-count-per-class splits the training data, but separate validation data are "
                  "given",
                  "leave out one of them");
    if (folds > 0)
      throw Error(ErrorCode::invalid_option,
                  "--validation-folds splits the training data, but separate validation data are given",
                  "leave out one of them");
    return options.validation.empty() ? "given" : "from " + options.validation;
  }
  if (!holds_out(options)) return "--validation-split 0";
  // Sequences lie in memory once anyway, and their pieces are not samples of the whole.
  if (data.format.kind != data::SampleKind::sequence) sets.whole = sets.train;
  std::tie(sets.train, sets.validation) = split_off_held_out(sets.train, options);
  if (!queue_cut(data).empty())
    sets.validation = data::cut_out_centre(sets.validation, data.format, data.resize_to);
  if (folds > 0)
    return "part " + std::to_string(options.fold) + " of " + std::to_string(folds) + ", with all labels";
  if (of_each > 0) return with_commas(of_each) + " of each label";
  const std::string share = shortest(options.validation_split) + " of each label";
  if (sets.validation.empty()) return share + ": no label has enough images";
  return share + (takes_one_of_each(sets, options.validation_split) ? ", at least one" : "") +
         without_held_out(sets);
}

}  // namespace lockstep::train
