#include "lockstep/train/inference/predict.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <ATen/Functions.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/counted_given.h"
#include "lockstep/base/error.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/device/failure.h"
#include "lockstep/device/inventory.h"
#include "lockstep/record/not_a_run.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/summary.h"
#include "lockstep/record/trial_folder.h"
#include "lockstep/nn/folded_batch_norm.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/surgery.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/train/options/image_size.h"
#include "lockstep/train/inference/inference.h"
#include "lockstep/train/options/normalization.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/options/on_worker.h"
#include "lockstep/train/planning/start_weights.h"
#include "lockstep/train/step/first_instance.h"
#include "lockstep/record/state.h"
#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/loop/ranks.h"
#include "lockstep/train/run/run_files.h"

namespace lockstep::train {

Model untrained_model_of_run(const std::filesystem::path& run_folder, const nn::Network& own) {
  const record::RunPaths paths{run_folder};
  const auto manifest = read_manifest(paths.options());
  if (!manifest && record::holds_run(run_folder))
    throw Error(ErrorCode::not_found,
                "\"" + run_folder.string() +
                    "\" is the run of a custom loop or of another program, so its network is not recorded",
                "load its weights into the network: train::build(..., {.weights = ...}), or --weights");
  if (!manifest) throw record::not_a_run(run_folder);
  if (manifest->network.is_null() && own.empty())
    throw Error(ErrorCode::invalid_option,
                "the run's network is a C++ module, which only its own program can make",
                "name it: train::model_of_run(folder, \"last\", network)");
  const Plan& plan = manifest->plan;
  Model model;
  model.network = manifest->network.is_null() ? own : nn::read_network(manifest->network, plan.network.name);
  model.input = plan.network.input;
  model.classes = plan.data.classes;
  model.resize = plan.data.format.resize;
  model.resize_to = plan.data.resize_to;
  model.decode = plan.data.format.decode;
  model.padding = plan.data.format.padding;
  model.mean = plan.data.mean;
  model.deviation = plan.data.deviation;
  model.labels = manifest->options.labels;
  model.mini_batch_size = plan.step.mini_batch_size;
  model.shards = plan.step.shards;
  return model;
}

namespace {

// Of a run that is over.
Error lost_weights(const std::filesystem::path& run_folder, const std::filesystem::path& weights) {
  const auto checkpoint = last_checkpoint(run_folder);
  return {ErrorCode::not_found, quote(weights.string()) + ", which the run wrote at its end, is gone",
          checkpoint
              ? "its last checkpoint has them too; name " +
                    shell_word((checkpoint->folder / weights.filename()).string()) + " instead of the folder"
              : "restore it, or train again with another --output"};
}

// A sweep removes weights and checkpoints of a trial together.
bool has_removed_weights(const std::filesystem::path& run_folder, std::optional<record::RunState> state) {
  const record::RunPaths paths{run_folder};
  const bool has_trained = state == record::RunState::ended || state == record::RunState::stopped;
  return has_trained && !std::filesystem::exists(paths.weights()) &&
         !std::filesystem::exists(paths.checkpoints()) && record::sweep_of_trial(run_folder);
}

}  // namespace

Model model_of_run(const std::filesystem::path& run_folder, const std::string& weights,
                   const nn::Network& own) {
  const record::RunPaths paths{run_folder};
  Model model = untrained_model_of_run(run_folder, own);
  model.weights = weights == "best" ? paths.best_weights() : paths.weights();
  if (std::filesystem::exists(model.weights)) return model;
  const record::RunSummary summary = record::summary_of(run_folder);
  const std::string& data = summary.data;
  if (has_removed_weights(run_folder, summary.state))
    throw record::removed_weights(run_folder, *record::sweep_of_trial(run_folder));
  if (weights == "best" && summary.state == record::RunState::ended)
    throw Error(ErrorCode::not_found,
                "the run in \"" + run_folder.string() +
                    "\" is over and has no best weights: no validation had a finite loss",
                "use --weights last");
  if (summary.state == record::RunState::ended) throw lost_weights(run_folder, model.weights);
  const bool has_best = weights != "best" && std::filesystem::exists(paths.best_weights());
  throw Error(
      ErrorCode::not_found,
      "the run in \"" + run_folder.string() + "\" has no " + model.weights.filename().string() + " yet",
      std::string(has_best ? "add --weights best, or " : "") + "let it finish: lockstep train " +
          (data.empty() ? "FOLDER" : shell_word(data)) + " --output " + shell_word(run_folder.string()) +
          " --resume");
}

namespace {

// The graph leaves the number open; the weights file determines it.
int64_t class_count(const nn::Network& network, const nn::SafetensorsFile& file) {
  const std::string name = nn::head_of(network) + ".weight";
  for (const auto& [tensor_name, tensor] : file.tensors) {
    if (tensor_name == name && tensor.dim() > 0 && tensor.size(0) >= 1) return tensor.size(0);
  }
  throw Error(ErrorCode::corrupt_data,
              "the weights are not of network \"" + network.name() + "\": there is no \"" + name + "\"",
              "name the network of the weights");
}

}  // namespace

Model model_of_weights(const nn::Network& network, const WeightsUse& use) {
  Options options = with_expected_input(use.options, network, use.given);
  options.weights = use.weights.string();
  options = with_input_of_weights(options, {.given = use.given});
  if (options.image_size == "auto") {
    throw Error(ErrorCode::invalid_option,
                "the image size for the weights in \"" + options.weights + "\" is unknown",
                "--image-size HxW, or a network file with \"input\"; docs/networks.md has it");
  }
  check_weights_are_there(network, options.weights);
  const nn::SafetensorsFile file = nn::read_weights(use.weights);
  Model model;
  model.network = network;
  const auto [height, width] = parse_size("image-size", options.image_size);
  model.input = {options.color == Color::grey ? 1 : 3, height, width, class_count(network, file)};
  model.classes = use.classes;
  while (use.classes.empty() && static_cast<int64_t>(model.classes.size()) < model.input.classes)
    model.classes.push_back(std::to_string(model.classes.size()));
  if (static_cast<int64_t>(model.classes.size()) != model.input.classes) {
    throw Error(ErrorCode::invalid_option, "the weights distinguish " +
                                               counted(model.input.classes, "class") + ", but " +
                                               counted_given(std::ssize(model.classes), "name"));
  }
  model.resize = options.resize;
  if (!options.resize_to.empty()) {
    const auto [larger_height, larger_width] = parse_size("resize-to", options.resize_to);
    model.resize_to = {larger_height, larger_width};
  }
  if (options.normalize == "mean-std")
    throw Error(ErrorCode::invalid_option,
                "--normalize mean-std is measured on training data, but there are none",
                "give the numbers with which the weights were trained");
  const Normalization normalization = parse_normalization(options.normalize, model.input.channels);
  model.mean = normalization.mean;
  model.deviation = normalization.deviation;
  model.state = file.tensors;
  model.weights = use.weights;
  return model;
}

Model with_folded_batch_norms(Model model, Precision precision) {
  if (model.state.empty()) model.state = nn::read_weights(model.weights).tensors;
  auto [network, state] =
      nn::with_folded_batch_norms(model.network, std::move(model.state), number_type(precision));
  model.network = std::move(network);
  model.state = std::move(state);
  return model;
}

std::string sample_word(const Model& model) { return model.input.time_steps > 0 ? "sequence" : "image"; }

std::string noun_of(const Model& model) { return sample_word(model) + "s"; }

data::ImageFormat format_of(const Model& model) {
  data::ImageFormat format = format_of(model.input);
  format.resize = model.resize;
  if (format.kind == data::SampleKind::sequence) {
    format.padding = model.padding;
  } else {
    format.decode = model.decode == data::Decode::gpu ? data::Decode::exact : model.decode;
  }
  return format;
}

std::pair<data::Dataset, std::vector<data::BadSample>> readable_samples(const data::Dataset& dataset,
                                                                        const Model& model,
                                                                        data::OnBadSample on_bad_sample) {
  if (on_bad_sample != data::OnBadSample::skip || dataset.store().kind() != data::SampleKind::image)
    return {dataset, {}};
  return data::without_bad_samples(dataset, format_of(model), device::inspect().cores);
}

namespace {

// A row for each sample that this process has computed: its index and its scores.
at::Tensor rows_of(const std::vector<Prediction>& predictions, int64_t classes) {
  const int64_t count = std::count_if(predictions.begin(), predictions.end(),
                                      [](const Prediction& one) { return !one.scores.empty(); });
  const at::Tensor rows = at::empty({count, 1 + classes}, at::kDouble);
  double* row = rows.mutable_data_ptr<double>();
  for (size_t i = 0; i < predictions.size(); ++i) {
    if (predictions[i].scores.empty()) continue;
    *row = static_cast<double>(i);
    row = std::copy(predictions[i].scores.begin(), predictions[i].scores.end(), row + 1);
  }
  return rows;
}

// Collects the scores of all ranks. If only rank 0 gets them, it does not send its own.
void gather_scores(std::vector<Prediction>& predictions, int64_t classes, const Together& together) {
  const comm::WaitOptions wait{.timeout = comm::kAsLongAsItTakes, .stop = together.stop};
  const at::Tensor own = !together.for_all && together.gets_all() ? at::empty({0, 1 + classes}, at::kDouble)
                                                                  : rows_of(predictions, classes);
  for (const at::Tensor& rows :
       together.for_all ? together.comm.all_gather(own, wait) : together.comm.gather(own, 0, wait)) {
    for (int64_t i = 0; i < rows.size(0); ++i) {
      const double* row = rows.const_data_ptr<double>() + i * (1 + classes);
      predictions[static_cast<size_t>(*row)].scores.assign(row + 1, row + 1 + classes);
    }
  }
}

std::vector<Prediction> predict_together(Model model, const data::Dataset& dataset, const Options& options,
                                         const Together& together) {
  if (model.input.labels_time_steps)
    throw Error(ErrorCode::invalid_option,
                "the network has a class for each time step, but predictions are one for each sample",
                "call its forward_sequences from C++");
  const int64_t classes = model.input.classes;
  std::vector<Prediction> predictions(static_cast<size_t>(dataset.size()));
  for_each_shard(std::move(model), dataset, options, /*feature_steps=*/0, together,
                 [&](ShardRunner& runner, const data::Shard& shard, int64_t first) {
                   at::Tensor logits;
                   runner.evaluate(shard, &logits);
                   const at::Tensor scores = at::softmax(logits, 1, at::kDouble).contiguous();
                   if (scores.size(1) != classes)
                     throw Error(ErrorCode::invalid_option, "the network gives " +
                                                                counted(scores.size(1), "score") + " for " +
                                                                counted(classes, "class"));
                   for (int64_t i = 0; i < shard.count; ++i) {
                     const double* row = scores.const_data_ptr<double>() + i * scores.size(1);
                     predictions[static_cast<size_t>(first + i)].scores.assign(row, row + scores.size(1));
                   }
                 });
  gather_scores(predictions, classes, together);
  if (!together.gets_all()) return {};
  for (size_t i = 0; i < predictions.size(); ++i) {
    Prediction& prediction = predictions[i];
    prediction.label =
        std::max_element(prediction.scores.begin(), prediction.scores.end()) - prediction.scores.begin();
    prediction.target = dataset.store().label(static_cast<int64_t>(i));
    prediction.source = dataset.store().source(static_cast<int64_t>(i));
  }
  return predictions;
}

std::vector<Prediction> predict_over(Model model, const data::Dataset& dataset, const Options& options,
                                     const Together& together) {
  try {
    return predict_together(std::move(model), dataset, options, together);
  } catch (...) {
    together.comm.abort(device::error_of(std::current_exception()));
    throw;
  }
}

std::vector<Prediction> predict_alone(Model model, const data::Dataset& dataset, const Options& options,
                                      std::stop_token stop) {
  const auto alone = comm::make_communicator();
  return predict_over(std::move(model), dataset, options,
                      {.comm = *alone, .ranks = {}, .stop = std::move(stop)});
}

}  // namespace

std::vector<Prediction> predict(Model model, const data::Dataset& dataset, const Options& options,
                                std::stop_token stop) {
  const pool::Worker* worker = pool::Worker::current();
  if (worker == nullptr) return predict_alone(std::move(model), dataset, options, std::move(stop));
  const EitherStop either(std::move(stop), worker->stop_token());
  if (worker->same_process()) {
    const Options own = worker->size() == 1 ? options : with_gpus(options, gpus_of_group(*worker));
    return once_for_group(*worker, "predict",
                          [&] { return predict_alone(std::move(model), dataset, own, either.token()); });
  }
  return predict_over(std::move(model), dataset, options,
                      {.comm = worker->comm(),
                       .ranks = ranks_of(worker->comm(), 0),
                       .for_all = true,
                       .stop = either.token()});
}

std::vector<Prediction> predict(Model model, const data::Dataset& dataset, const Options& options,
                                SamplesDone done) {
  const auto alone = comm::make_communicator();
  return predict_over(std::move(model), dataset, options, {.comm = *alone, .done = std::move(done)});
}

std::vector<Prediction> predict(Model model, const data::Dataset& dataset, const Options& options,
                                comm::Communicator& comm, int64_t rank_here) {
  return predict_over(std::move(model), dataset, options, {.comm = comm, .ranks = ranks_of(comm, rank_here)});
}

namespace {

// Whether fewer than five classes come before the target; of equal scores, and of scores that are NaN, the
// first class comes first, as for the label.
bool is_among_five(const Prediction& prediction) {
  const auto target = static_cast<size_t>(prediction.target);
  int64_t before = 0;
  for (size_t i = 0; i < prediction.scores.size(); ++i) {
    const double score = prediction.scores[i], own = prediction.scores[target];
    before += score > own || (!(score < own) && i < target);
  }
  return before < 5;
}

// Of other data or of another model, it would be counted beside the table.
void check_fits(const Prediction& prediction, size_t classes) {
  if (prediction.scores.size() == classes && static_cast<size_t>(prediction.target) < classes) return;
  throw Error(ErrorCode::invalid_option,
              "the prediction of " + quote(prediction.source) + " has " +
                  counted(std::ssize(prediction.scores), "score") + " and the target " +
                  std::to_string(prediction.target) + ", and does not fit " +
                  counted(static_cast<int64_t>(classes), "class"),
              "evaluate with the classes of the model, and open the data with them: SourceOptions::classes");
}

}  // namespace

Evaluation evaluate(const std::vector<Prediction>& predictions, const std::vector<std::string>& classes) {
  Evaluation evaluation;
  evaluation.confusion.assign(classes.size(), std::vector<int64_t>(classes.size()));
  int64_t correct = 0, among_five = 0;
  for (const Prediction& prediction : predictions) {
    if (prediction.target < 0) continue;
    check_fits(prediction, classes.size());
    among_five += is_among_five(prediction);
    ++evaluation.samples;
    correct += prediction.target == prediction.label;
    ++evaluation.confusion[static_cast<size_t>(prediction.target)][static_cast<size_t>(prediction.label)];
    evaluation.loss -= std::log(std::max(prediction.scores[static_cast<size_t>(prediction.target)], 1e-300));
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, evaluation.samples));
  evaluation.loss /= count;
  evaluation.accuracy = static_cast<double>(correct) / count;
  if (classes.size() >= kLeastClassesForTop5)
    evaluation.top5_accuracy = static_cast<double>(among_five) / count;
  return evaluation;
}

std::vector<size_t> mistakes(const std::vector<Prediction>& predictions) {
  std::vector<size_t> places;
  for (size_t i = 0; i < predictions.size(); ++i) {
    if (predictions[i].target >= 0 && predictions[i].target != predictions[i].label) places.push_back(i);
  }
  // NaN has no order, so it counts as the lowest score.
  const auto score = [&](size_t place) {
    const double value = predictions[place].scores[static_cast<size_t>(predictions[place].label)];
    return std::isnan(value) ? -1 : value;
  };
  std::stable_sort(places.begin(), places.end(), [&](size_t a, size_t b) { return score(a) > score(b); });
  return places;
}

}  // namespace lockstep::train
