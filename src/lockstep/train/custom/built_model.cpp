#include "lockstep/train/custom/built_model.h"

#include <array>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/nn/module.h>

#include "lockstep/base/dimensions.h"
#include "lockstep/base/error.h"
#include "lockstep/data/survey.h"
#include "lockstep/nn/direct/direct_convolution.h"
#include "lockstep/nn/freeze.h"
#include "lockstep/nn/state.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/train/custom/internal/model_parts.h"
#include "lockstep/train/number_type.h"
#include "lockstep/train/placement.h"
#include "lockstep/train/prepare.h"
#include "lockstep/train/replica.h"

namespace lockstep::train {
namespace {

constexpr const char* kNetworkFormat = "BCSS";

// The first weights: drawn on every rank by one seed, read from the file by rank 0 alone, whose weights count.
nn::Instance make_instance(const pool::Worker& worker, const nn::Network& network, const nn::NetworkInput& input, const BuildOptions& options) {
  Options first;
  first.seed = options.seed;
  nn::Instance instance = first_instance(network, input, first);
  if (worker.rank() == 0 && !options.weights.empty()) {
    nn::load_state(*instance.module, nn::read_weights(options.weights), options.weights.string(), {.fresh = options.fresh});
  }
  return instance;
}

at::Tensor placed(const at::Tensor& input, const SharedWeights& weights) {
  return input.to(weights.device(), input.is_floating_point() ? weights.type() : input.scalar_type());
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

at::Tensor BuiltModel::forward(const at::Tensor& input) const {
  parts_->begin_training();
  return parts_->instance.forward(placed(input, parts_->weights));
}

at::Tensor BuiltModel::forward(const at::Tensor& input, std::string_view format) const {
  check_labelled(format, input.sizes().vec(), "the input");
  const at::Tensor pictures = input.permute(dimension_order(format, kNetworkFormat));
  const nn::NetworkInput& wanted = parts_->input;
  const std::array<int64_t, 3> sizes{wanted.channels, wanted.height, wanted.width};
  if (pictures.sizes().slice(1) != at::IntArrayRef(sizes)) {
    throw Error(ErrorCode::invalid_option, "the input " + c10::str(input.sizes()) + " labelled \"" + std::string(format) + "\" is of pictures " + c10::str(pictures.sizes().slice(1)) +
                                               " (channels, height, width), and the network takes " + c10::str(at::IntArrayRef(sizes)));
  }
  return forward(pictures.contiguous());
}

at::Tensor BuiltModel::predict(const at::Tensor& input) const {
  const torch::NoGradGuard no_grad;
  if (parts_->training) parts_->begin_evaluation();
  const nn::DirectConvolutions convolutions(parts_->options.kernels == Kernels::auto_);
  const AutocastScope autocast(parts_->options.precision, parts_->weights.device().type(), WeightCasts::renew);
  return parts_->instance.forward(placed(input, parts_->weights));
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
    throw Error(ErrorCode::invalid_option, "the network has " + std::to_string(own.size()) + " learnables, and was given " + std::to_string(parameters.size()));
  }
  for (size_t i = 0; i < own.size(); ++i) {
    if (parameters[i].sizes() != own[i].sizes()) {
      throw Error(ErrorCode::invalid_option, "learnable \"" + parts_->weights.slots()[i].name + "\" is " + c10::str(own[i].sizes()) + ", and was given " + c10::str(parameters[i].sizes()));
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
    if (!found) throw Error(ErrorCode::invalid_option, "the network has no layer \"" + layer + "\" with learnables", "they are named as in its state dict; lockstep network show lists them");
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

void BuiltModel::freeze(const std::vector<std::string>& layers) const { freeze_where(*this, learnables_of(*this, layers), true); }
void BuiltModel::freeze_all_but(const std::vector<std::string>& layers) const { freeze_where(*this, learnables_of(*this, layers), false); }

nn::NamedTensors BuiltModel::state() const { return parts_->weights.state(); }
uint64_t BuiltModel::hash() const { return parts_->weights.hash(); }
void BuiltModel::save(const std::filesystem::path& path) const { nn::write_safetensors_atomic(path, state()); }
const nn::NetworkInput& BuiltModel::input() const { return parts_->input; }
const nn::Instance& BuiltModel::instance() const { return parts_->instance; }

nn::NetworkInput input_of(const data::Dataset& dataset) {
  const data::PictureFormat format = data::default_format(data::survey_sizes(dataset, /*threads=*/1));
  return {format.channels, format.height, format.width, static_cast<int64_t>(dataset.classes().size())};
}

BuiltModel build(pool::Worker& worker, const nn::Network& network, const nn::NetworkInput& input, const BuildOptions& options) {
  if (options.precision == Precision::auto_) {
    throw Error(ErrorCode::invalid_option, "a model for a loop of one's own cannot choose its precision by a trial", "say single, double_ or bf16_mixed");
  }
  const at::Device device = open_device(worker.device().is_cpu() ? "cpu" : "cuda", worker.device().index());
  const nn::Instance instance = make_instance(worker, network, input, options);
  SharedWeights weights(instance, number_type(options.precision), device);
  std::vector<at::Tensor> all{weights.flat()};
  for (const auto& [name, tensor] : weights.buffers()) all.push_back(tensor);
  worker.comm().broadcast(all, /*root=*/0);
  auto norms = probe_batch_norms(instance, input);
  BatchNorms shard_statistics(instance, norms);
  return BuiltModel(std::make_shared<BuiltModel::Parts>(BuiltModel::Parts{input, options, instance, std::move(weights), std::move(norms), std::move(shard_statistics)}));
}

BuiltModel build(pool::Worker& worker, const nn::Network& network, const data::Dataset& dataset, const BuildOptions& options) {
  check_same_dataset(worker.comm(), dataset);
  return build(worker, network, input_of(dataset), options);
}

}  // namespace lockstep::train
