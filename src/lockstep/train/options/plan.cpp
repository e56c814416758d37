#include "lockstep/train/options/plan.h"

#include "lockstep/base/hash.h"

namespace lockstep::train {

std::vector<int64_t> queue_cut(const Plan& plan, const Options& options) {
  if (plan.resize_to.empty() || !data::Augment::parse(options.augment).crops()) return {};
  return {plan.format.height, plan.format.width};
}

data::Order sample_order(const Plan& plan, const Options& options) {
  return {.seed = options.seed,
          .shuffle = plan.tbptt_length > 0 ? data::Shuffle::never : options.shuffle,
          .sampler_replicas = plan.sampler_replicas,
          .replica_mini_batch_size =
              plan.sampler_replicas > 0 ? plan.mini_batch_size / plan.sampler_replicas : 1};
}

Json to_json(const Plan& plan) {
  return {{"network", plan.network},
          {"parameters", plan.parameter_count},
          {"channels", plan.input.channels},
          {"height", plan.input.height},
          {"width", plan.input.width},
          {"time_steps", plan.input.time_steps},
          {"labels_steps", plan.input.labels_time_steps},
          {"tbptt_length", plan.tbptt_length},
          {"resize", enum_names(plan.format.resize)[static_cast<size_t>(plan.format.resize)]},
          {"resize_to", plan.resize_to},
          {"fresh_layers", plan.fresh_layers},
          {"keep_features", plan.keep_features},
          {"decode", enum_names(plan.format.decode)[static_cast<size_t>(plan.format.decode)]},
          {"mean", plan.mean},
          {"deviation", plan.deviation},
          {"classes", plan.classes},
          {"train_count", plan.train_count},
          {"validation_count", plan.validation_count},
          {"test_count", plan.test_count},
          {"listing_hash", as_hex(plan.listing_hash)},
          {"mini_batch_size", plan.mini_batch_size},
          {"learning_rate", plan.learning_rate},
          {"lr_schedule", enum_names(plan.lr_schedule)[static_cast<size_t>(plan.lr_schedule)]},
          {"shards", plan.shards},
          {"sampler_replicas", plan.sampler_replicas},
          {"read_ahead", plan.read_ahead},
          {"precision", enum_names(plan.precision)[static_cast<size_t>(plan.precision)]},
          {"max_epochs", plan.max_epochs},
          {"steps_per_epoch", plan.steps_per_epoch},
          {"total_steps", plan.total_steps},
          {"first_step", plan.first_step},
          {"first_epoch", plan.first_epoch},
          {"streamed", plan.streamed},
          {"patience", plan.patience},
          {"validate_every", plan.validate_every},
          {"checkpoint_every", plan.checkpoint_every},
          {"hash_every", plan.hash_every},
          {"device", plan.device},
          {"devices", plan.devices},
          {"workers", plan.workers},
          {"cores", plan.cores},
          {"keep_images", plan.keep_images},
          {"cached_images", plan.cached_images},
          {"resident", plan.resident},
          {"cuda_graphs", plan.cuda_graphs},
          {"warnings", plan.warnings},
          {"fingerprint", plan.fingerprint}};
}

}  // namespace lockstep::train
