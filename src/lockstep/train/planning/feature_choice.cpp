#include "lockstep/train/planning/feature_choice.h"

#include <utility>

#include <torch/nn/module.h>

#include <c10/util/accumulate.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/state.h"
#include "lockstep/train/cache/feature_files.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/step/shard_runner.h"

namespace lockstep::train {
namespace {

size_t frozen_layers(const Prepared& prepared) {
  return static_cast<size_t>(prepared.plan.network.frozen_layers);
}

// Autocast leaves the output of some layers in 32 bits.
int64_t mixed_bytes(const Prepared& prepared) {
  const nn::NetworkInput& input = prepared.plan.network.input;
  const torch::NoGradGuard no_grad;
  const AutocastScope autocast(Precision::bf16_mixed, c10::DeviceType::CPU, WeightCasts::renew);
  return static_cast<int64_t>(
      prepared.prototype
          .forward_part(at::zeros({1, input.channels, input.height, input.width}), 0, frozen_layers(prepared))
          .element_size());
}

// Of one image, as they are kept.
int64_t feature_bytes(const Prepared& prepared) {
  const std::vector<nn::LayerRow> rows =
      nn::inspect_network(prepared.network, prepared.plan.network.input).rows;
  const Precision precision = prepared.plan.step.precision;
  return c10::multiply_integers(rows[frozen_layers(prepared) - 1].shape) *
         (is_mixed(precision) ? mixed_bytes(prepared) : number_bytes(precision));
}

}  // namespace

FeatureRequest feature_request(const Options& options, const ThisMachine& machine, const Plan* earlier) {
  FeatureRequest request{.asked = options.keep_features,
                         .augments = options.augment != "none",
                         .copies = machine.ranks.is_gpu ? machine.ranks.count : 1,
                         .most_bytes = machine.share_of_memory(options.memory_share),
                         .cache = {options.cache, options.cache_size}};
  if (earlier != nullptr) request.kept_before = earlier->network.keep_features;
  return request;
}

FeatureChoice choose_features(const Prepared& prepared, const data::Dataset& train,
                              const FeatureRequest& request) {
  const Plan& plan = prepared.plan;
  const bool always = request.asked == KeepFeatures::always;
  if (plan.network.frozen_layers == 0) {
    if (always)
      throw Error(ErrorCode::invalid_option,
                  "--keep-features always has nothing to keep: no first layers of the network are frozen",
                  "freeze them, e.g. --freeze 'features.*'");
    return {};
  }
  if (plan.data.streamed) return {.reason = "an iterator returns each image once"};
  if (request.asked == KeepFeatures::never) return {.reason = "--keep-features never"};
  if (request.augments) {
    const std::string reason = "--augment changes the images in every epoch";
    if (always)
      throw Error(ErrorCode::invalid_option, "--keep-features always is impossible: " + reason,
                  "leave out one of them");
    return {.reason = reason};
  }
  const int64_t bytes = (plan.data.train_count + plan.data.validation_count) * feature_bytes(prepared);
  const bool fits = request.copies * bytes <= request.most_bytes;
  const std::string obstacle = fits ? "" : feature_file_obstacle(train, bytes, request.cache);
  const std::string where = fits               ? ", and no augmentation changes the images"
                            : obstacle.empty() ? ", more than --memory-share allows, so they lie on disk"
                                               : ", more than --memory-share allows; on disk: " + obstacle;
  FeatureChoice choice;
  choice.keep = always || request.kept_before.value_or(fits || obstacle.empty());
  choice.on_disk = choice.keep && !fits && obstacle.empty();
  choice.reason = (always                            ? "asked for; "
                   : request.kept_before.has_value() ? "as when the run began; "
                                                     : "") +
                  ("the outputs of \"" + prepared.prototype.layers[frozen_layers(prepared) - 1].name) +
                  "\" take " + as_bytes(request.copies * bytes) + (always && fits ? "" : where);
  return choice;
}

FeatureFiles open_feature_files(const Prepared& prepared, const CacheChoice& choice) {
  const Plan& plan = prepared.plan;
  const int64_t record_bytes = feature_bytes(prepared);
  const uint64_t frozen =
      hash_of_frozen(nn::state_of(*prepared.prototype.module), prepared.prototype, frozen_layers(prepared));
  FeatureFiles files;
  for (const auto& [images, storage] :
       {std::pair{prepared.train, &files.train}, std::pair{prepared.validation, &files.validation}}) {
    if (images == nullptr) continue;
    OpenedFeatures opened{
        .refusal = feature_file_obstacle(images->dataset(), images->size() * record_bytes, choice)};
    if (opened.refusal.empty())
      opened = open_features(features_key(*images, prepared.network, plan, frozen, record_bytes), choice);
    *storage = {
        .in_memory = !plan.network.features_on_disk, .file = std::move(opened.file), .frozen = frozen};
    if (storage->file == nullptr) files.refusal = opened.refusal;
  }
  return files;
}

std::string keep_without_files(NetworkPlan& plan, bool required) {
  plan.features_on_disk = false;
  plan.keep_features = required;
  return std::string(required
                         ? "the outputs of the frozen layers are kept in memory, where they take more than "
                           "--memory-share allows"
                         : "the frozen layers are computed at every step") +
         ", because there is no file for their outputs: ";
}

}  // namespace lockstep::train
