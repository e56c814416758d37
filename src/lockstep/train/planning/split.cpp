#include "lockstep/train/planning/split.h"

#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/centre.h"

namespace lockstep::train {

std::pair<data::Dataset, data::Dataset> split_off_held_out(const data::Dataset& dataset,
                                                           const Options& options) {
  if (options.validation_count_per_class > 0) {
    auto [held_out, rest] =
        dataset.split_by_count(options.validation_count_per_class, {.seed = options.seed});
    return {rest, held_out};
  }
  return dataset.split(1 - options.validation_split, {.seed = options.seed});
}

std::string hold_out(Datasets& sets, const Options& options, const DataPlan& data) {
  const int64_t of_each = options.validation_count_per_class;
  if (!sets.validation.empty()) {
    if (of_each > 0)
      throw Error(ErrorCode::invalid_option,
                  "--validation-count-per-class splits the training data, but separate validation data are "
                  "given",
                  "leave out one of them");
    return options.validation.empty() ? "given" : "from " + options.validation;
  }
  if (!holds_out(options)) return "--validation-split 0";
  // Sequences lie in memory once anyway, and their pieces are not samples of the whole.
  if (data.format.kind != data::SampleKind::sequence) sets.whole = sets.train;
  std::tie(sets.train, sets.validation) = split_off_held_out(sets.train, options);
  if (!queue_cut(data).empty())
    sets.validation = data::cut_out_centre(sets.validation, data.format, data.resize_to);
  return (of_each > 0 ? with_commas(of_each) : shortest(options.validation_split)) + " of each label" +
         (sets.validation.empty() ? ": no label has enough images" : "");
}

}  // namespace lockstep::train
