#include "lockstep/train/options/plan.h"

#include <algorithm>

namespace lockstep::train {

const RecipeValue* RecipePlan::find(std::string_view option) const {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const RecipeValue& value) { return value.option == option; });
  return found == values.end() ? nullptr : &*found;
}

std::vector<int64_t> queue_cut(const DataPlan& data) {
  if (data.resize_to.empty() || !data.augment.crops()) return {};
  return {data.format.height, data.format.width};
}

data::Order sample_order(const StepPlan& step) {
  return {.seed = step.seed,
          .shuffle = step.tbptt_length > 0 ? data::Shuffle::never : step.shuffle,
          .sampler_replicas = step.sampler_replicas,
          .replica_mini_batch_size =
              step.sampler_replicas > 0 ? step.mini_batch_size / step.sampler_replicas : 1};
}

data::ImageFormat format_of(const nn::NetworkInput& input) {
  if (input.time_steps == 0)
    return {.channels = input.channels, .height = input.height, .width = input.width};
  return {
      .channels = input.channels, .height = 1, .width = input.time_steps, .kind = data::SampleKind::sequence};
}

Json values_of(const Plan& plan) {
  Json values = Json::object();
  const Json parts = lockstep::to_json(plan);
  for (const auto& [name, part] : parts.items()) {
    if (part.is_object()) {
      values.update(part);
    } else if (name != "lines") {
      values[name] = part;
    }
  }
  return values;
}

Plan read_plan(const Json& json) {
  Plan plan;
  read_json(json, plan, "");
  nn::NetworkInput& input = plan.network.input;
  input.classes = static_cast<int64_t>(plan.data.classes.size());
  data::ImageFormat format = format_of(input);
  format.resize = plan.data.format.resize;
  format.padding = plan.data.format.padding;
  format.decode = plan.data.format.decode;
  plan.data.format = format;
  return plan;
}

Plan read_flat_plan(const Json& json, const Options& options) {
  Plan before;
  before.data.format.resize = options.resize;
  before.data.format.padding = options.sequence_padding;
  before.data.format.decode = options.decode;
  Json parts = lockstep::to_json(before);
  for (Json& part : parts) {
    if (!part.is_object()) continue;
    for (auto&& [name, value] : part.items()) {
      if (json.contains(name)) value = json[name];
    }
  }
  if (json.contains("warnings")) parts["warnings"] = json["warnings"];
  return read_plan(parts);
}

}  // namespace lockstep::train
