#include "lockstep/train/step/learning.h"

#include <algorithm>
#include <cmath>

#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/freeze.h"
#include "lockstep/nn/surgery.h"
#include "lockstep/train/step/shard_runner.h"

namespace lockstep::train {
namespace {

constexpr double kNewWeightFactor = 10;
constexpr double kNewBiasFactor = 20;

struct Factor {
  std::string pattern;
  double value = 1;
};

std::vector<Factor> parse_factors(const std::string& text) {
  std::vector<Factor> factors;
  if (text.empty()) return factors;
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.rfind('=');
    const auto value = equals == std::string::npos
                           ? std::nullopt
                           : parse_number<double>(std::string_view(part).substr(equals + 1));
    if (equals == 0 || !value || !std::isfinite(*value) || *value < 0) {
      throw Error(ErrorCode::invalid_option,
                  "option --learning-rate-factors cannot be \"" + text +
                      "\": it must be PATTERN=FACTOR, more of them after commas, factors at least 0",
                  "for example --learning-rate-factors 'classifier.*=10,*.bias=2'");
    }
    factors.push_back({part.substr(0, equals), *value});
  }
  return factors;
}

}  // namespace

nn::Instance trainable_instance(const nn::Network& network, const NetworkPlan& plan, int64_t seed) {
  nn::Instance instance = seeded_instance(network, plan.input, seed);
  if (!plan.freeze.empty()) nn::freeze(instance, plan.freeze);
  return instance;
}

std::vector<std::string> learnables_of(const nn::Instance& instance) {
  std::vector<std::string> names;
  for (const auto& item : instance.module->named_parameters()) {
    if (item.value().requires_grad()) names.push_back(item.key());
  }
  return names;
}

std::vector<RateFactor> learning_rate_factors(const std::vector<std::string>& learnables,
                                              const NetworkPlan& plan, int64_t head_steps) {
  std::vector<Factor> factors;
  for (const std::string& layer : plan.fresh_layers) {
    factors.push_back({layer, kNewWeightFactor});
    factors.push_back({layer + ".bias", kNewBiasFactor});
  }
  const size_t asked = factors.size();
  for (Factor& factor : parse_factors(plan.learning_rate_factors)) factors.push_back(std::move(factor));
  std::vector<RateFactor> values(learnables.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_fresh =
        std::any_of(plan.fresh_layers.begin(), plan.fresh_layers.end(),
                    [&](const std::string& layer) { return nn::covers(layer, learnables[i]); });
    if (!is_fresh) values[i].first_step = head_steps;
  }
  for (size_t f = 0; f < factors.size(); ++f) {
    bool found = false;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!nn::covers(factors[f].pattern, learnables[i])) continue;
      values[i].value = factors[f].value;
      found = true;
    }
    if (!found && f >= asked) {
      throw Error(ErrorCode::invalid_option,
                  "the network learns nothing that \"" + factors[f].pattern +
                      "\" of --learning-rate-factors could mean",
                  "lockstep network show lists a network's layers; frozen ones have no rate");
    }
  }
  return values;
}

}  // namespace lockstep::train
