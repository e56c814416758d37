// Inference, with the execution options of training. The scores are the same for any number of workers and
// ranks.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/class_figures.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/data/image_set.h"
#include "lockstep/data/sources.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/safetensors.h"
#include "lockstep/train/options/options.h"

namespace lockstep::train {

/// A trained network, of a run folder or of a caller.
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
  std::filesystem::path weights;               ///< safetensors; used when `state` is empty
  nn::NamedTensors state;                      ///< weights in memory
  data::Labels labels = data::Labels::folder;  ///< how the training data gave the labels
  int64_t mini_batch_size = 0;                 ///< of its run, and the shards of a mini-batch; 0: it has none
  int64_t shards = 0;
};

/// The word for one of its samples: "image" or "sequence".
std::string sample_word(const Model& model);

/// The word for its samples: "images" or "sequences".
std::string noun_of(const Model& model);

/// The format that the model accepts. Decode::gpu becomes exact here; for_each_shard (inference.h) decodes on
/// the GPU if it runs on one.
data::ImageFormat format_of(const Model& model);

/// With OnBadSample::skip, the dataset without the images that cannot be read, and the list of these.
/// Otherwise the dataset unchanged.
std::pair<data::Dataset, std::vector<data::BadSample>> readable_samples(const data::Dataset& dataset,
                                                                        const Model& model,
                                                                        data::OnBadSample on_bad_sample);

/// The model of a run's manifest, without weights: the network, its input and classes. Throws not_found if
/// there is no run, and invalid_option for a C++ module without `own`.
Model untrained_model_of_run(const std::filesystem::path& run_folder, const nn::Network& own = {});

/// The model of a run folder, from its manifest. Throws not_found if the run has no model yet.
///   weights  "last" or "best"
///   own      the network, if it is a C++ module, which a manifest cannot store
Model model_of_run(const std::filesystem::path& run_folder, const std::string& weights = "last",
                   const nn::Network& own = {});

/// How to use weights that are not in a run folder.
struct WeightsUse {
  std::filesystem::path weights;          ///< safetensors or of torch.save
  std::vector<std::string> classes = {};  ///< names in the order of outputs; empty: numbers from 0
  Options options = {};  ///< read: image_size, resize, resize_to, color, normalize; where at their defaults,
                         ///< the network's expected input
  std::vector<std::string> given = {};  ///< names of options that the user gave with their default values
};

/// A network with the weights of a file. The number of classes is that of the weights of its last layer.
/// Throws not_found, corrupt_data, and invalid_option if the image size is unknown.
Model model_of_weights(const nn::Network& network, const WeightsUse& use);

/// The model with batch norms as part of the convolutions and linear layers before them, if its network is a
/// layer graph. It is faster, and its scores differ by rounding: by less than 1e-9 in float64.
///   precision  with which it will be used
Model with_folded_batch_norms(Model model, Precision precision);

/// The result for one sample.
struct Prediction {
  std::string source;
  int64_t label = 0;           ///< the class with the highest score
  int64_t target = -1;         ///< the class by the folder; -1: unknown
  std::vector<double> scores;  ///< softmax, one per class
};

/// One prediction for each sample, in the dataset's order. Sequences are not cut into pieces. Throws
/// invalid_option for a network that has a class for each time step. Options that are read: execution,
/// workers, shards, devices, mini_batch_size, precision, on_bad_sample. In a task of a pool it stays on the
/// task's workers and ends with the call, as fit does (fit.h). Throws cancelled after a stop. `state` of a
/// model that is moved in is freed as soon as the workers have the weights.
std::vector<Prediction> predict(Model model, const data::Dataset& dataset, const Options& options,
                                std::stop_token stop = {});

/// Called with the number of samples that were done since the last call, by several threads at once.
using SamplesDone = std::function<void(int64_t count)>;

/// The same outside of a pool. Calls `done` repeatedly.
std::vector<Prediction> predict(Model model, const data::Dataset& dataset, const Options& options,
                                SamplesDone done);

/// The same by all ranks of a group, each for its part of the samples. Rank 0 gets all predictions, the
/// others none. Throws invalid_option, naming the first difference, if the ranks' models, samples or options
/// differ; a rank that throws breaks the group.
///   rank_here  this rank's place among those of its machine, which decides its GPU
std::vector<Prediction> predict(Model model, const data::Dataset& dataset, const Options& options,
                                comm::Communicator& comm, int64_t rank_here = 0);

/// From this number of classes on, the share of samples whose class is among the five with the highest scores
/// is of interest.
inline constexpr size_t kLeastClassesForTop5 = 10;

/// How good predictions are, over the samples whose class is known.
struct Evaluation {
  double loss = 0;                           ///< mean cross-entropy
  double accuracy = 0;                       ///< share of correct predictions, 0 to 1
  std::optional<double> top5_accuracy = {};  ///< with kLeastClassesForTop5 or more
  int64_t samples = 0;
  ConfusionMatrix confusion;
};

/// Compares predictions with their targets. `classes` are the model's, in its order. The data must have been
/// opened with them (SourceOptions::classes), so that its labels have the same order. Throws invalid_option
/// for a prediction that is not for that many classes, and for a target that is none of them.
Evaluation evaluate(const std::vector<Prediction>& predictions, const std::vector<std::string>& classes);

/// The indices of the predictions that are wrong, the highest score first; those with equal scores in order,
/// and those whose scores are NaN at the end.
std::vector<size_t> mistakes(const std::vector<Prediction>& predictions);

}  // namespace lockstep::train
