#include "lockstep/train/planning/module_choice.h"

#include <exception>

#include <ATen/Parallel.h>

#include "lockstep/comm/thread_group.h"
#include "lockstep/device/failure.h"
#include "lockstep/device/random_scope.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/step/learning.h"
#include "lockstep/train/step/shard_probe.h"

namespace lockstep::train {
namespace {

constexpr int64_t kTrialSamples = 4;  // of the shards of the default number, or more

std::string why_apart_in_trial(const Prepared& prepared, const Plan& plan, int64_t samples) {
  const nn::Instance instance = trainable_instance(prepared.network, plan.network, plan.step.seed);
  if (instance.module == prepared.prototype.module) return "its function gives the same module each time";
  const SharedWeights weights(instance, number_type(plan.step.precision), at::kCPU);
  ShardRunner runner(instance, weights, probe_batch_norms(instance, plan.network.input),
                     shard_runner_options(plan));
  runner.probe(made_up_shard(plan, samples));
  return runner.apart_because();
}

// On one core, as workers compute. Empty, or the reason for NetworkPlan::module_apart.
std::string why_module_apart(const Prepared& prepared, Plan plan, int64_t samples) {
  std::string reason;
  plan.machine.device = "cpu";
  comm::ThreadGroup(1).run([&](Share) {
    at::set_num_threads(1);
    const device::RandomScope own_draws(at::kCPU, 0);
    try {
      reason = why_apart_in_trial(prepared, plan, samples);
    } catch (...) {
      // If it was not the trial's fault, the run will fail with it.
      reason = "a trial failed: " + device::error_of(std::current_exception()).message();
    }
  });
  return reason.empty() ? "" : "the module (" + reason + ")";
}

}  // namespace

void choose_module_pass(Prepared& prepared, PlanReasons& reasons, const ModuleRequest& request) {
  reasons.channels_last = prepared.prototype.channels_last;
  NetworkPlan& network = prepared.plan.network;
  if (!prepared.network.spec().is_null() || !prepared.prototype.layers.empty()) return;
  if (network.input.time_steps > 0) return;
  if (request.earlier != nullptr) {
    network.module_together = network.sums_shards = request.earlier->network.module_together;
    if (!network.module_together) network.module_apart = "the module, as the run began";
    return;
  }
  Plan plan = prepared.plan;
  plan.network.module_together = plan.network.sums_shards = true;
  std::string why = why_shards_alone(plan, "cpu");
  if (why.empty()) why = why_shards_alone(plan, request.machine.place_any_shards(request.options).device);
  if (why.empty()) why = why_module_apart(prepared, plan, kTrialSamples);
  network.module_apart = why;
  network.module_together = network.sums_shards = why.empty();
}

bool keeps_module_pass(Prepared& prepared, int64_t samples) {
  NetworkPlan& network = prepared.plan.network;
  const bool alone = samples < 2 || 2 * samples > kSamplesTogether;
  if (!network.module_together || samples == kTrialSamples || alone) return true;
  network.module_apart = why_module_apart(prepared, prepared.plan, samples);
  network.module_together = network.sums_shards = network.module_apart.empty();
  return network.module_together;
}

}  // namespace lockstep::train
