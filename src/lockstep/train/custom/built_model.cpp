#include "lockstep/train/custom/built_model.h"

#include <array>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/nn/module.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/dimensions.h"
#include "lockstep/base/error.h"
#include "lockstep/data/survey.h"
#include "lockstep/device/inventory.h"
#include "lockstep/kernels/direct_kernels.h"
#include "lockstep/nn/freeze.h"
#include "lockstep/nn/state.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/train/custom/internal/model_parts.h"
#include "lockstep/train/step/hidden_states.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/step/shard_runner.h"
#include "lockstep/train/planning/sequence_data.h"

namespace lockstep::train {
namespace {

// Every rank draws the first weights with the same seed. Only rank 0 reads the file, and all ranks then take
// its weights.
nn::Instance make_instance(const pool::Worker& worker, const nn::Network& network,
                           const nn::NetworkInput& input, const BuildOptions& options) {
  nn::Instance instance = seeded_instance(network, input, options.seed);
  if (worker.rank() == 0 && !options.weights.empty()) {
    nn::load_state(*instance.module, nn::read_weights(options.weights), options.weights.string(),
                   {.fresh = options.fresh});
  }
  return instance;
}

at::Tensor placed(const at::Tensor& input, const SharedWeights& weights) {
  return input.to(weights.device(), input.is_floating_point() ? weights.type() : input.scalar_type());
}

void check_sequences(const BuiltModel::Parts& parts, const data::Shard& shard) {
  if (parts.input.time_steps == 0 || !parts.instance.forward_sequences) {
    throw Error(ErrorCode::invalid_option, "the network takes no sequences",
                "build it for a dataset of sequences; your own module needs Tensor forward(const "
                "nn::Sequences&)");
  }
  const at::IntArrayRef sizes = shard.input.sizes();
  if (sizes.size() == 3 && sizes[0] == shard.lengths.size(0) && sizes[1] == parts.input.channels) return;
  throw Error(ErrorCode::invalid_option,
              "an input " + c10::str(sizes) + " is not the shard's " +
                  counted(shard.lengths.size(0), "sequence") + " of " +
                  counted(parts.input.channels, "channel") + ", [b,C,T]",
              "leave ShardOutput::format empty");
}

// The state with which the shard begins; empty: zeros.
std::vector<at::Tensor> hidden_states_into(const BuiltModel::Parts& parts, const data::Shard& shard,
                                           const StreamStates& states) {
  if (parts.instance.hidden_state.empty() || !shard.continues.defined() ||
      !shard.continues.any().item<bool>())
    return {};
  const auto left = states.find(shard.index);
  if (left == states.end() || left->second.empty() || left->second.front().size(0) != shard.count) {
    throw Error(
        ErrorCode::invalid_option,
        "shard " + std::to_string(shard.index) + " continues sequences whose recurrent state is missing",
        "read pieces of streams in their order, .order = {.shuffle = data::Shuffle::never}, from the "
        "first one, in mini-batches of as many samples as there are slots");
  }
  return rows_to_begin_with(left->second, shard);
}

at::Tensor run(const BuiltModel::Parts& parts, const data::Shard& shard, StreamStates* states) {
  if (!shard.lengths.defined()) return parts.instance.forward(placed(shard.input, parts.weights));
  check_sequences(parts, shard);
  nn::Sequences sequences{.values = placed(shard.input, parts.weights),
                          .lengths = shard.lengths,
                          .padded_left = shard.padded_left};
  if (states == nullptr) return parts.instance.forward_sequences(sequences).logits;
  sequences.hidden_state = hidden_states_into(parts, shard, *states);
  nn::SequenceOutput output = parts.instance.forward_sequences(sequences);
  (*states)[shard.index] = std::move(output.hidden_state);
  return output.logits;
}

}  // namespace

void BuiltModel::Parts::begin_training() {
  if (!training) nn::begin_training(instance);
  training = true;
}

void BuiltModel::Parts::begin_evaluation() {
  instance.module->eval();
  shard_statistics.load(weights);
  training = false;
}

at::Tensor BuiltModel::forward(const at::Tensor& input) const { return forward(data::Shard{.input = input}); }

at::Tensor BuiltModel::forward(const at::Tensor& input, std::string_view format) const {
  check_labelled(format, input.sizes().vec(), "the input");
  const nn::NetworkInput& wanted = parts_->input;
  const bool sequences = wanted.time_steps > 0;
  const at::Tensor samples = input.permute(dimension_order(format, sequences ? "BCT" : "BCSS"));
  const std::array<int64_t, 3> sizes{wanted.channels, wanted.height, wanted.width};
  const at::IntArrayRef fixed = at::IntArrayRef(sizes).slice(0, sequences ? 1 : 3),
                        given = samples.sizes().slice(1, fixed.size());
  if (given != fixed) {
    throw Error(ErrorCode::invalid_option, "the input " + c10::str(input.sizes()) + " labelled \"" +
                                               std::string(format) + "\" is of " +
                                               (sequences ? "sequences " : "images ") + c10::str(given) +
                                               (sequences ? " (channels)" : " (channels, height, width)") +
                                               ", and the network takes " + c10::str(fixed));
  }
  return forward(samples.contiguous());
}

at::Tensor BuiltModel::forward(const data::Shard& shard, StreamStates* states) const {
  parts_->begin_training();
  return run(*parts_, shard, states);
}

at::Tensor BuiltModel::predict(const at::Tensor& input) const { return predict(data::Shard{.input = input}); }

at::Tensor BuiltModel::predict(const data::Shard& shard, StreamStates* states) const {
  const torch::NoGradGuard no_grad;
  if (parts_->training) {
    parts_->begin_evaluation();
  } else {
    parts_->shard_statistics.load(parts_->weights);  // the program may have written into state()
  }
  const kernels::DirectKernels convolutions(parts_->options.kernels == Kernels::auto_);
  const AutocastScope autocast(parts_->options.precision, parts_->weights.device().type(),
                               WeightCasts::renew);
  return run(*parts_, shard, states);
}

std::vector<at::Tensor> BuiltModel::parameters() const { return parts_->weights.learned(parts_->instance); }

std::vector<std::string> BuiltModel::parameter_names() const {
  std::vector<std::string> names;
  for (const ParameterSlot& slot : parts_->weights.slots()) names.push_back(slot.name);
  return names;
}

void BuiltModel::assign(const std::vector<at::Tensor>& parameters) const {
  const torch::NoGradGuard no_grad;
  const auto own = this->parameters();
  if (parameters.size() != own.size()) {
    throw Error(ErrorCode::invalid_option, "the network has " + std::to_string(own.size()) +
                                               " learnables, and was given " +
                                               std::to_string(parameters.size()));
  }
  for (size_t i = 0; i < own.size(); ++i) {
    if (parameters[i].sizes() != own[i].sizes()) {
      throw Error(ErrorCode::invalid_option, "learnable \"" + parts_->weights.slots()[i].name + "\" is " +
                                                 c10::str(own[i].sizes()) + ", and was given " +
                                                 c10::str(parameters[i].sizes()));
    }
  }
  for (size_t i = 0; i < own.size(); ++i) {
    at::Tensor target = own[i];
    target.copy_(parameters[i]);
  }
}

std::vector<bool> learnables_of(const BuiltModel& model, const std::vector<std::string>& layers) {
  const auto names = model.parameter_names();
  std::vector<bool> inside(names.size());
  for (const std::string& layer : layers) {
    bool found = false;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] != layer && !names[i].starts_with(layer + ".")) continue;
      inside[i] = found = true;
    }
    if (!found)
      throw Error(ErrorCode::invalid_option, "the network has no layer \"" + layer + "\" with learnables",
                  "they are named as in its state dict; lockstep network show lists them");
  }
  return inside;
}

namespace {

void freeze_where(const BuiltModel& model, const std::vector<bool>& learnables, bool frozen) {
  auto own = model.parameters();
  for (size_t i = 0; i < own.size(); ++i) {
    if (learnables[i] == frozen) own[i].requires_grad_(false);
  }
}

}  // namespace

void BuiltModel::freeze(const std::vector<std::string>& layers) const {
  freeze_where(*this, learnables_of(*this, layers), true);
}
void BuiltModel::freeze_all_but(const std::vector<std::string>& layers) const {
  freeze_where(*this, learnables_of(*this, layers), false);
}

nn::NamedTensors BuiltModel::state() const { return parts_->weights.state(); }
double BuiltModel::loss_scale() const {
  return parts_->options.precision == Precision::fp16_mixed ? parts_->loss_scale.factor : 1;
}
uint64_t BuiltModel::hash() const { return parts_->weights.hash(); }
void BuiltModel::save(const std::filesystem::path& path) const {
  nn::write_safetensors_atomic(path, state());
}
const nn::NetworkInput& BuiltModel::input() const { return parts_->input; }
const nn::Instance& BuiltModel::instance() const { return parts_->instance; }

nn::NetworkInput input_of(const data::Dataset& dataset) {
  return network_input(dataset, data::format_of(dataset));
}

data::SharedImages shared_images(const pool::Worker& worker) {
  const int64_t processes = worker.same_process() ? 1 : worker.size();
  return {worker.shared<data::ImageShare>(), device::memory_limit() / 2 / processes};
}

BuiltModel build(pool::Worker& worker, const nn::Network& network, const nn::NetworkInput& input,
                 const BuildOptions& options) {
  if (options.precision == Precision::auto_) {
    throw Error(ErrorCode::invalid_option, "a model for a custom loop cannot choose its precision by a trial",
                "give single, double_, bf16_mixed or fp16_mixed");
  }
  const at::Device device = open_device(worker.device().is_cpu() ? "cpu" : "cuda", worker.device().index());
  const nn::Instance instance = make_instance(worker, network, input, options);
  SharedWeights weights(instance, number_type(options.precision), device);
  std::vector<at::Tensor> all{weights.flat()};
  for (const auto& [name, tensor] : weights.buffers()) all.push_back(tensor);
  worker.comm().broadcast(all, /*root=*/0);
  auto norms = probe_batch_norms(instance, input);
  BatchNorms shard_statistics(instance, norms);
  return BuiltModel(std::make_shared<BuiltModel::Parts>(
      BuiltModel::Parts{network, input, options, instance, std::move(weights), std::move(norms),
                        std::move(shard_statistics), shared_images(worker)}));
}

BuiltModel build(pool::Worker& worker, const nn::Network& network, const data::Dataset& dataset,
                 const BuildOptions& options) {
  check_same_dataset(worker.comm(), dataset);
  BuiltModel model = build(worker, network, input_of(dataset), options);
  model.parts().classes = dataset.classes();
  return model;
}

}  // namespace lockstep::train
