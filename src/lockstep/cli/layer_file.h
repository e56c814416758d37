// Writes a layer's output for samples to files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/data/datastore.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::cli {

/// Who computes, and who is notified.
struct LayerWork {
  const train::Model& model;
  const std::string& layer;
  const std::vector<data::Dataset>& inputs;
  const train::Options& options;
  comm::Communicator* group = nullptr;  ///< all ranks call and compute together, and rank 0 gets all rows
                                        ///< (over_ranks.h). Null: this process only
  int64_t rank_here = 0;                ///< this rank's place among those of its machine
  train::SamplesDone done = {};         ///< reports progress, on the rank that collects the rows
};

/// Writes a safetensors file: "activations" [samples,...], float32, or float64 with --precision 64-true;
/// "targets" int64 [samples], -1 where the class is unknown; for sequences also "lengths" int64 [samples].
/// The metadata hold "layer", and "files" and "classes" as JSON. Rows are written as they are computed, so
/// the file may be larger than memory. Rank 0 writes the file and renames it into place.
void write_layer_file(const std::filesystem::path& path, const LayerWork& work);

/// The same as CSV text: file and target, then each number. A column is named by its position, such as 3.0.1.
/// Empty on other ranks than 0. Throws invalid_option when the layer gives too many numbers for CSV.
std::string layer_csv(const LayerWork& work);

}  // namespace lockstep::cli
