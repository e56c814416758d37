#include "lockstep/train/predict.h"

#include <algorithm>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/io/run_folder.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/state.h"
#include "lockstep/train/batch_norm.h"
#include "lockstep/train/on_worker.h"
#include "lockstep/train/placement.h"
#include "lockstep/train/replica.h"
#include "lockstep/train/run_files.h"
#include "lockstep/train/shared_weights.h"

namespace lockstep::train {
namespace {

int64_t parameter_count(const nn::Instance& instance) {
  int64_t count = 0;
  for (const auto& parameter : instance.module->parameters()) count += parameter.numel();
  return count;
}

}  // namespace

Model model_of_run(const std::filesystem::path& run_folder, const std::string& weights, const nn::Network& own) {
  const io::RunPaths paths{run_folder};
  const auto manifest = read_manifest(paths.options());
  if (!manifest) throw Error(ErrorCode::not_found, "\"" + run_folder.string() + "\" holds no run", "name a folder that lockstep train wrote");
  if (manifest->network.is_null() && own.empty()) throw Error(ErrorCode::invalid_option, "the run's network is a C++ module, which only its own program can make", "name it: train::model_of_run(folder, \"last\", network)");
  const auto file = weights == "best" ? paths.best_weights() : paths.weights();
  if (!std::filesystem::exists(file)) {
    throw Error(ErrorCode::not_found, "the run in \"" + run_folder.string() + "\" has no " + file.filename().string() + " yet", "let it finish: lockstep train FOLDER --output " + run_folder.string() + " --resume");
  }
  const Json& plan = manifest->plan;
  Model model;
  try {
    model.network = manifest->network.is_null() ? own : nn::read_network(manifest->network, plan.at("network").get<std::string>());
    model.input = {plan.at("channels").get<int64_t>(), plan.at("height").get<int64_t>(), plan.at("width").get<int64_t>(), static_cast<int64_t>(plan.at("classes").size())};
    model.input.steps = plan.value("time_steps", int64_t{0});
    model.input.labels_steps = plan.value("labels_steps", false);
    model.padding = manifest->options.sequence_padding;
    model.classes = plan.at("classes").get<std::vector<std::string>>();
    model.resize = manifest->options.resize;
    model.decode = manifest->options.decode;
    model.mean = plan.at("mean").get<std::vector<double>>();
    model.deviation = plan.at("deviation").get<std::vector<double>>();
  } catch (const Json::exception&) {
    throw Error(ErrorCode::corrupt_data, "\"" + paths.options().string() + "\" is damaged");
  }
  model.weights = file;
  return model;
}

data::PictureFormat format_of(const Model& model) {
  const nn::NetworkInput& input = model.input;
  if (input.steps == 0) return {.channels = input.channels, .height = input.height, .width = input.width, .resize = model.resize, .decode = model.decode};
  return {input.channels, 1, input.steps, model.resize, data::SampleKind::sequence, model.padding};
}

namespace {

nn::SafetensorsFile weights_of(const Model& model) { return model.state.empty() ? nn::read_safetensors(model.weights) : nn::SafetensorsFile{model.state, {}}; }

std::vector<Prediction> predict_here(const Model& model, const data::Dataset& dataset, const Options& options, std::stop_token stop) {
  if (model.input.labels_steps) throw Error(ErrorCode::invalid_option, "the network gives a class at each time step, and predictions are one for each sample", "run its forward_sequences from C++");
  const nn::Instance prototype = seeded_instance(model.network, model.input, 0);
  nn::load_state(*prototype.module, weights_of(model), model.state.empty() ? model.weights.string() : model.network.name());
  const int64_t shards = options.shards > 0 ? options.shards : default_shards(parameter_count(prototype), options.mini_batch_size);
  const Placement placement = resolve_placement(options, shards, machine_here(options));
  const auto type = options.precision == Precision::double_ ? at::kDouble : at::kFloat;
  const auto device_of = [&](int64_t rank) { return open_device(placement.device, placement.devices, rank); };
  const SharedWeights weights(prototype, type, device_of(0));
  const auto norms = probe_batch_norms(prototype, model.input);
  const auto pictures = std::make_shared<const data::PictureSet>(dataset, format_of(model), /*most_bytes=*/0);

  std::vector<Prediction> predictions(static_cast<size_t>(dataset.size()));
  comm::ThreadGroup group(placement.workers);
  group.run([&](Share share) {
    at::set_num_threads(1);
    nn::Instance instance = prototype;
    if (share.rank != 0) {
      instance = seeded_instance(model.network, model.input, 0);
      weights.alias(instance);
    }
    Replica replica(instance, weights, norms, {.format = {type, device_of(share.rank), model.mean, model.deviation}, .precision = options.precision, .kernels = options.kernels, .padded_left = model.padding == data::PaddingSide::left});
    replica.begin_evaluation();
    data::MiniBatchQueue queue(pictures, share, {.mini_batch_size = options.mini_batch_size, .shards = shards, .order = {.shuffle = data::Shuffle::never}, .pinned = placement.device == "cuda"});
    while (const auto batch = queue.next(stop)) {
      for (const data::Shard& shard : batch->shards) {
        at::Tensor logits;
        replica.evaluate(shard, &logits);
        const at::Tensor scores = at::softmax(logits, 1, at::kDouble).contiguous();
        const int64_t first = batch->cursor.step * options.mini_batch_size + part_of(batch->global_count, batch->shard_count, shard.index).begin;
        for (int64_t i = 0; i < shard.count; ++i) {
          const double* row = scores.const_data_ptr<double>() + i * scores.size(1);
          Prediction& prediction = predictions[static_cast<size_t>(first + i)];
          prediction.scores.assign(row, row + scores.size(1));
          prediction.label = std::max_element(prediction.scores.begin(), prediction.scores.end()) - prediction.scores.begin();
          prediction.target = dataset.store().label(first + i);
          prediction.source = dataset.store().source(first + i);
        }
      }
    }
  });
  if (stop.stop_requested()) throw Error(ErrorCode::cancelled, "stopped before all samples were done");
  return predictions;
}

}  // namespace

std::vector<Prediction> predict(const Model& model, const data::Dataset& dataset, const Options& options, std::stop_token stop) {
  const pool::Worker* worker = pool::Worker::current();
  if (worker == nullptr) return predict_here(model, dataset, options, std::move(stop));
  const EitherStop either(std::move(stop), worker->stop_token());
  return once_for_group(*worker, "predict", [&] { return predict_here(model, dataset, options, either.token()); });
}

Evaluation evaluate(const std::vector<Prediction>& predictions, const std::vector<std::string>& classes) {
  Evaluation evaluation;
  evaluation.confusion.assign(classes.size(), std::vector<int64_t>(classes.size()));
  int64_t correct = 0;
  for (const Prediction& prediction : predictions) {
    if (prediction.target < 0) continue;
    ++evaluation.samples;
    correct += prediction.target == prediction.label;
    ++evaluation.confusion[static_cast<size_t>(prediction.target)][static_cast<size_t>(prediction.label)];
    evaluation.loss -= std::log(std::max(prediction.scores[static_cast<size_t>(prediction.target)], 1e-300));
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, evaluation.samples));
  evaluation.loss /= count;
  evaluation.accuracy = static_cast<double>(correct) / count;
  return evaluation;
}

}  // namespace lockstep::train
