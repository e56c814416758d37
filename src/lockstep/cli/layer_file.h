// What a layer gives for samples, as files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/datastore.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::cli {

/// Who computes, and whom to tell.
struct LayerWork {
  const train::Model& model;
  const std::string& layer;
  const std::vector<data::Dataset>& inputs;
  const train::Options& options;
  comm::Communicator* group =
      nullptr;  ///< the ranks compute together, and all call; rank 0 has all (over_ranks.h). Null: alone
  int64_t rank_here = 0;         ///< this rank's place among those of its machine
  train::SamplesDone done = {};  ///< told as it goes on, where the rows are taken
};

/// A safetensors file: "activations" [samples,...], float32 or with --precision 64-true float64; "targets"
/// int64 [samples], -1 where the class is not known; of sequences also "lengths" int64 [samples]. Its
/// metadata have "layer", and as JSON "files" and "classes". Written as it is computed, so it may be larger
/// than memory, and renamed into place; by rank 0.
void write_layer_file(const std::filesystem::path& path, const LayerWork& work);

/// As text: file and target, then each number, its column named by its place, as 3.0.1. Empty but on rank 0.
/// Throws invalid_option for more numbers than such text is good for.
std::string layer_csv(const LayerWork& work);

}  // namespace lockstep::cli
