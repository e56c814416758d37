#include "lockstep/train/step/first_instance.h"

#include <algorithm>
#include <filesystem>

#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/state.h"
#include "lockstep/nn/surgery.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/train/step/learning.h"

namespace lockstep::train {

nn::Instance first_instance(const nn::Network& network, const NetworkPlan& plan, int64_t seed) {
  nn::Instance instance = trainable_instance(network, plan, seed);
  if (plan.weights.empty()) return instance;
  check_weights_are_there(network, plan.weights);
  const nn::SafetensorsFile file = nn::read_weights(plan.weights);
  const nn::LoadOptions load{.fresh = plan.fresh_layers, .dropped = plan.dropped_layers};
  with_context([&] { return "for network \"" + network.name() + "\""; },
               [&] { nn::load_state(*instance.module, file, plan.weights, load); });
  return instance;
}

void check_weights_are_there(const nn::Network& network, const std::string& file) {
  if (std::filesystem::exists(file)) return;
  const std::string where = nn::where_weights_are(network.name());
  throw Error(ErrorCode::not_found, "there is no file of weights \"" + file + "\"",
              where.empty() ? "check the path" : "check the path; " + where);
}

Options with_expected_input(const Options& options, const nn::Network& network,
                            const std::vector<std::string>& given) {
  const Json expected = nn::expected_input(network);
  for (const auto& [name, value] : expected.items()) {
    const bool known = name == "image-size" || name == "resize" || name == "resize-to" || name == "color" ||
                       name == "normalize";
    if (!known)
      throw Error(ErrorCode::invalid_option,
                  "\"input\" of network \"" + network.name() + "\" has no entry \"" + name + "\"",
                  "known are image-size, resize, resize-to, color, normalize");
  }
  return with_input(options, expected, given);
}

Options with_input(const Options& options, const Json& expected, const std::vector<std::string>& given) {
  Options filled = options;
  const Options defaults;
  for (const auto& [name, value] : expected.items()) {
    const bool asked = std::find(given.begin(), given.end(), name) != given.end() ||
                       field_text(options, name) != field_text(defaults, name);
    if (!asked) set_field(filled, name, value.get<std::string>());
  }
  return filled;
}

}  // namespace lockstep::train
