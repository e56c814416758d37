#include "lockstep/train/planning/network_choice.h"

#include <algorithm>

#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/freeze.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/module_checks.h"
#include "lockstep/nn/surgery.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/step/first_instance.h"
#include "lockstep/train/step/learning.h"
#include "lockstep/train/step/shard_runner.h"

namespace lockstep::train {
namespace {

constexpr int64_t kSmallImage = 40;        // pixels per side, up to which digits_cnn is chosen
constexpr int64_t kSmallestForDigits = 7;  // pixels per side that its convolutions need

void put_on_new_head(nn::Network& network, NetworkPlan& plan, const Options& options) {
  if (options.head == Head::keep) {
    if (options.drop_layers > 0)
      throw Error(ErrorCode::invalid_option, "--drop-layers leaves the network without a last layer",
                  "add --head new");
    if (!options.new_layers.empty())
      throw Error(ErrorCode::invalid_option, "--new-layers is for networks that get new layers",
                  "add --head new");
    if (options.unfreeze_after > 0)
      throw Error(ErrorCode::invalid_option, "--unfreeze-after is for networks that get new layers",
                  "add --head new");
    return;
  }
  if (options.drop_layers > 0 && !options.new_layers.empty())
    throw Error(ErrorCode::invalid_option,
                "--drop-layers makes the new layers itself, but --new-layers names them", "use one of both");
  if (options.weights.empty()) {
    const std::string where = nn::where_weights_are(network.name());
    throw Error(ErrorCode::invalid_option,
                "--head new keeps all trained layers except the last one, but there are no --weights",
                "--weights FILE, safetensors or saved by PyTorch" + (where.empty() ? "" : "; or " + where));
  }
  if (!options.new_layers.empty()) check_weights_are_there(network, options.weights);
  nn::Surgery surgery = options.new_layers.empty()
                            ? nn::with_new_head(network, plan.input, options.drop_layers)
                            : nn::with_new_layers(network, plan.input, split(options.new_layers, ','),
                                                  nn::read_weights(options.weights).tensors);
  network = std::move(surgery.network);
  plan.fresh_layers = std::move(surgery.fresh);
  plan.dropped_layers = std::move(surgery.dropped);
}

void count_learnables(NetworkPlan& plan, const nn::Instance& prototype) {
  for (const auto& parameter : prototype.module->parameters()) {
    plan.parameter_count += parameter.numel();
    if (parameter.requires_grad()) plan.learned_count += parameter.numel();
  }
  plan.sums_shards = layers_keep_apart(prototype);
  plan.batch_norms = count_batch_norms(prototype);
}

// --tbptt-length cuts sequences into pieces and carries the recurrent state from piece to piece.
void check_pieces(const std::string& network, const nn::Instance& prototype) {
  if (prototype.hidden_state.empty()) {
    throw Error(ErrorCode::invalid_option,
                "network \"" + network +
                    "\" has no recurrent state, which --tbptt-length carries from piece to piece",
                "leave it out, or use lstm or gru layers");
  }
  for (const nn::InstanceLayer& layer : prototype.layers) {
    if (!layer.needs_whole_sequences) continue;
    throw Error(ErrorCode::invalid_option,
                "layer \"" + layer.name + "\" of network \"" + network +
                    "\" needs whole sequences, but --tbptt-length cuts them into pieces",
                "leave it out, or use only lstm, gru and linear layers");
  }
}

}  // namespace

std::pair<nn::Network, std::string> default_network(const data::ImageFormat& format) {
  if (format.kind == data::SampleKind::sequence) return {nn::find_network("lstm_classifier"), "sequences"};
  if (std::min(format.height, format.width) < kSmallestForDigits)
    return {nn::find_network("mlp"),
            "images with under " + std::to_string(kSmallestForDigits) + " pixels per side"};
  const bool grey = format.channels == 1;
  if (grey && std::max(format.height, format.width) <= kSmallImage)
    return {nn::find_network("digits_cnn"), "small grey images"};
  return {nn::find_network("resnet18"),
          grey ? "grey images with more than " + std::to_string(kSmallImage) + " pixels per side"
               : "colour images"};
}

bool are_few_photographs(const data::ImageFormat& format, int64_t count) {
  constexpr int64_t kSide = 64;
  return format.kind == data::SampleKind::image && std::min(format.height, format.width) >= kSide &&
         count < kFewImages;
}

NetworkChoice make_network(const nn::Network& network, const nn::NetworkInput& input, const Options& options,
                           const StepPlan& step) {
  NetworkChoice choice{.network = network, .prototype = {}, .plan = {}};
  NetworkPlan& plan = choice.plan;
  plan.input = input;
  plan.weights = options.weights;
  if (!options.freeze.empty()) plan.freeze = split(options.freeze, ',');
  plan.learning_rate_factors = options.learning_rate_factors;
  put_on_new_head(choice.network, plan, options);
  plan.name = choice.network.name();
  choice.prototype = first_instance(choice.network, plan, step.seed);
  if (step.tbptt_length > 0) check_pieces(plan.name, choice.prototype);
  count_learnables(plan, choice.prototype);
  learning_rate_factors(learnables_of(choice.prototype), plan);  // throws for invalid factors
  if (choice.network.spec().is_null())
    nn::check_module(plan.name, choice.prototype, input, number_type(options.precision));
  if (input.time_steps == 0) plan.frozen_layers = static_cast<int64_t>(nn::frozen_layers(choice.prototype));
  return choice;
}

}  // namespace lockstep::train
