// What a user asks of a training: the options of a file and of the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/cli/verb.h"
#include "lockstep/train/options/options.h"

namespace lockstep::cli {

/// The words behind "train", as it reads them. Throws invalid_option.
Call read_train_words(const std::vector<std::string>& words);

struct AskedOptions {
  train::Options options;
  std::vector<std::string> given;  ///< names of the options that were set in a file or on the command line
  bool has(std::string_view name) const;
};

/// The options of --config, then those of the command line: the later ones win. A drop factor or period
/// without --lr-schedule means piecewise. Throws invalid_option, and corrupt_data or io for the file.
AskedOptions asked_options(const Call& call);

/// Refuses an empty --config, --output, --test, --validation or --weights: a run would begin with other data
/// or weights. An empty one may take back what the file of --config says. Throws also as asked_options.
void check_places(const Call& call);

}  // namespace lockstep::cli
