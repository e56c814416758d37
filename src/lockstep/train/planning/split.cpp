#include "lockstep/train/planning/split.h"

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

}  // namespace lockstep::train
