// What a layer gives for samples, as files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/train/predict.h"

namespace lockstep::cli {

/// A safetensors file: "activations" [samples,...], float32 or with --precision 64-true float64; "targets" int64 [samples], -1 where the class is not known;
/// of sequences also "lengths" int64 [samples]. Its metadata have "layer", and as JSON "files" and "classes". Written as it is computed, so it may be larger
/// than memory, and renamed into place. done: told as it goes on.
void write_layer_file(const std::filesystem::path& path, const train::Model& model, const std::string& layer, const std::vector<data::Dataset>& inputs, const train::Options& options, const train::SamplesDone& done = {});

/// As text: file and target, then each number, its column named by its place, as 3.0.1. Throws invalid_option for more numbers than such text is good for.
std::string layer_csv(const train::Model& model, const std::string& layer, const std::vector<data::Dataset>& inputs, const train::Options& options, const train::SamplesDone& done = {});

}  // namespace lockstep::cli
