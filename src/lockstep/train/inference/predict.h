// Inference with the execution options of training: the same scores for any number of workers and ranks.
#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/class_figures.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/data/image_set.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/safetensors.h"
#include "lockstep/train/options/options.h"

namespace lockstep::train {

/// A trained network as a run folder or a caller names it.
struct Model {
  nn::Network network;
  nn::NetworkInput input;
  std::vector<std::string> classes;
  data::Resize resize = data::Resize::stretch;
  std::vector<int64_t>
      resize_to;  ///< height and width; see data::cut_out_centre. Empty: images are fitted to `input`
  data::Decode decode = data::Decode::exact;
  data::PaddingSide padding = data::PaddingSide::right;
  std::vector<double> mean;  ///< per channel, of pixels / 255
  std::vector<double> deviation;
  std::filesystem::path weights;  ///< safetensors; used when `state` is empty
  nn::NamedTensors state;         ///< weights that lie in memory
};

/// What its samples are called: "images" or "sequences".
std::string noun_of(const Model& model);

/// What the model takes images or sequences to. Decode::gpu is exact here: for_each_shard (inference.h)
/// takes the GPU where it runs on one.
data::ImageFormat format_of(const Model& model);

/// `dataset` and nothing left out; with OnBadSample::skip without the images that cannot be read, which are
/// the second.
std::pair<data::Dataset, std::vector<data::BadSample>> readable_samples(const data::Dataset& dataset,
                                                                        const Model& model,
                                                                        data::OnBadSample on_bad_sample);

/// What a run's manifest says of its model: the network, its input and classes, without weights. Throws
/// not_found where there is no run, and invalid_option for a C++ module that `own` is not given for.
Model untrained_model_of_run(const std::filesystem::path& run_folder, const nn::Network& own = {});

/// The model of a run folder (weights: "last" or "best"), from its manifest. Throws not_found when the run
/// has no model yet. own: the network of a run whose network was a C++ module, which a manifest cannot hold.
Model model_of_run(const std::filesystem::path& run_folder, const std::string& weights = "last",
                   const nn::Network& own = {});

/// What is said of weights that lie in no run folder.
struct WeightsUse {
  std::filesystem::path weights;          ///< safetensors or of torch.save
  std::vector<std::string> classes = {};  ///< names in the order of outputs; empty: numbers from 0
  Options options = {};  ///< read: image_size, resize, resize_to, color, normalize; where at their defaults,
                         ///< the network's expected input
  std::vector<std::string> given = {};  ///< names of options that are meant although at their defaults
};

/// A network with weights of a file. How many classes there are is seen in the weights of its last layer.
/// Throws not_found, corrupt_data, and invalid_option where nothing says of what size images are.
Model model_of_weights(const nn::Network& network, const WeightsUse& use);

/// One answer per sample, in the dataset's order.
struct Prediction {
  std::string source;
  int64_t label = 0;           ///< the class with the highest score
  int64_t target = -1;         ///< the folder's class, -1 when unknown
  std::vector<double> scores;  ///< softmax, one per class
};

/// Sequences are taken whole. Throws invalid_option for a network that gives a class at each time step.
/// Options read: execution, workers, shards, devices, mini_batch_size, precision, on_bad_sample.
/// In a task of a pool it stays on the task's workers and ends with the call, as fit does (fit.h). Throws
/// cancelled after a stop.
std::vector<Prediction> predict(const Model& model, const data::Dataset& dataset, const Options& options,
                                std::stop_token stop = {});

/// Told how many samples more are done, by several threads at once.
using SamplesDone = std::function<void(int64_t count)>;

/// The same outside of a pool, with `done` called as it goes on.
std::vector<Prediction> predict(const Model& model, const data::Dataset& dataset, const Options& options,
                                SamplesDone done);

/// The same by all ranks of a group, each for its part of the samples: all predictions on rank 0, none on the
/// others. The ranks have the same model, samples and options, else invalid_option names the first that
/// differs; a rank that throws breaks the group. rank_here: this rank's place among those of its machine,
/// which decides its GPU.
std::vector<Prediction> predict(const Model& model, const data::Dataset& dataset, const Options& options,
                                comm::Communicator& comm, int64_t rank_here = 0);

struct Evaluation {
  double loss = 0;
  double accuracy = 0;
  int64_t samples = 0;
  ConfusionMatrix confusion;
};

Evaluation evaluate(const std::vector<Prediction>& predictions, const std::vector<std::string>& classes);

/// The places of those with a target that is not the label, the highest score of a wrong answer first; of
/// equal ones the earlier.
std::vector<size_t> mistakes(const std::vector<Prediction>& predictions);

}  // namespace lockstep::train
