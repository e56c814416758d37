#include "lockstep/train/planning/mini_batch.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/share.h"
#include "lockstep/train/planning/fitting_batch.h"
#include "lockstep/train/planning/module_choice.h"

namespace lockstep::train {
namespace {

// Below about 16 samples batch norm makes networks less accurate (Wu and He 2018, "Group Normalization",
// figure 1); above, a group costs more exchanges between workers.
constexpr int64_t kSamplesPerNorm = 16;

std::string scaling_reason(const Options& options) {
  return "scaled with the workers from " + field_text(options, "mini-batch-size");
}

class MiniBatchChooser {
 public:
  MiniBatchChooser(const Prepared& prepared, const Options& options, const ThisMachine& machine,
                   ResidentChooser& resident)
      : prepared_(prepared),
        plan_(prepared.plan),
        options_(options),
        resident_(resident),
        machine_(machine),
        placement_(machine.place_any_shards(options)) {}

  MiniBatchChoice choose() {
    const bool averages = plan_.exchange.averages();
    choice_.size =
        plan_.data.streamed || plan_.step.tbptt_length > 0 ? plan_.step.mini_batch_size : asked_size();
    choice_.shards = asked_shards();
    if (choice_.shards == 0) choice_.shards = default_shards(plan_, placement_.device, choice_.size);
    if (averages) choice_.size *= choice_.shards;
    if (plan_.step.scales_with_workers) scale_with_workers();
    if (options_.sample_order != data::SampleOrder::lockstep) deal_as_sampler();
    choice_.batch_norm_group = batch_norm_group();
    return std::move(choice_);
  }

 private:
  // 0: by the network and the mini-batch. By default each worker has a replica.
  int64_t asked_shards() const {
    if (options_.shards > 0) return options_.shards;
    return plan_.exchange.averages() ? placement_.workers : 0;
  }

  int64_t asked_size() {
    const int64_t size =
        options_.mini_batch_size.is_auto() ? fitting_size() : int64_t{options_.mini_batch_size};
    return std::min(size, plan_.data.train_count);
  }

  int64_t fitting_size() {
    if (plan_.step.scales_with_workers)
      throw Error(ErrorCode::invalid_option,
                  "--scale-with-workers has nothing to scale with --mini-batch-size auto, which uses all the "
                  "memory that is available",
                  "leave out one of them");
    if (placement_.device != "cpu" && placement_.workers > machine_.rank_count(placement_.devices)) {
      throw Error(ErrorCode::invalid_option,
                  "--mini-batch-size auto needs one worker for each GPU, but several workers share one",
                  "leave out --workers, or give a number");
    }
    Plan asked = plan_;
    asked.machine.device = placement_.device;
    asked.machine.devices = placement_.devices;
    asked.machine.gpu = placement_.gpu;
    asked.machine.cores = placement_.cores;
    asked.step.shards = asked_shards();
    MemoryBudget budget = memory_budget(asked.machine, options_.memory_share, machine_.inventory);
    if (resident_.choose(asked).use) budget.bytes -= static_cast<double>(resident_bytes(asked));
    const FittingBatch found =
        fitting_batch(asked, measure_shard_memory(prepared_.network, asked), budget.bytes);
    choice_.reason = found.reason + " (the limit is " + budget.words + "); --mini-batch-size " +
                     std::to_string(found.samples) + " --recipe plain gives the same weights elsewhere";
    return found.samples;
  }

  int64_t batch_norm_group() const {
    const BatchNormGroup& asked = options_.batch_norm_group;
    if (!asked.is_auto()) check_batch_norm_group();
    if (plan_.network.batch_norms == 0) return 0;
    if (asked.is_mini_batch()) return choice_.size;
    if (!asked.is_auto()) return asked.samples();
    return why_shards_alone(plan_, placement_.device).empty() ? kSamplesPerNorm : 0;
  }

  void check_batch_norm_group() const {
    const auto refuse = [&](const std::string& what, const std::string& why) {
      throw Error(ErrorCode::invalid_option,
                  "--batch-norm-group " + field_text(options_, "batch-norm-group") +
                      " cannot be combined with " + what + ": " + why,
                  "leave out one of them");
    };
    if (plan_.exchange.averages())
      refuse("--exchange average", "each replica normalises over its own mini-batch");
    if (plan_.step.accumulate > 1) refuse("--accumulate", "batch norms normalise over a piece of a shard");
    if (options_.batch_norm_group.is_mini_batch() && plan_.step.out_of_memory == OutOfMemory::split)
      refuse("--on-out-of-memory split", "batch norms then normalise over a piece of a shard");
    if (placement_.device != "cpu") {
      throw Error(ErrorCode::invalid_option,
                  "--batch-norm-group works on a CPU only: on a GPU batch norms normalise over a shard",
                  "--shards N makes shards of the size that you want");
    }
  }

  // Each worker then has as many samples, in as many shards, as one worker alone would have.
  void scale_with_workers() {
    const int64_t workers = placement_.workers;
    choice_.size = std::min(choice_.size * workers, plan_.data.train_count);
    choice_.shards *= workers;
    if (options_.scale_with_workers == ScaleWithWorkers::batch_and_rate)
      choice_.rate_factor = static_cast<double>(workers);
    choice_.reason = scaling_reason(options_);
  }

  // The sampler has a replica for each worker. Unless --shards is given, replicas have equally many shards.
  void deal_as_sampler() {
    const int64_t replicas =
        plan_.exchange.averages()
            ? choice_.shards
            : resolve_placement(options_, choice_.shards, machine_.inventory, machine_.ranks).workers;
    choice_.sampler_replicas = replicas;
    if (options_.shards == 0) choice_.shards = divided_up(choice_.shards, replicas) * replicas;
    if (choice_.size == plan_.data.train_count)
      choice_.size = divided_up(plan_.data.train_count, replicas) * replicas;
    if (choice_.size % replicas == 0) return;
    throw Error(ErrorCode::invalid_option,
                "a mini-batch of " + std::to_string(choice_.size) +
                    " samples cannot be divided equally among " + std::to_string(replicas) +
                    " workers, as --sample-order distributed-sampler requires",
                "--mini-batch-size " + std::to_string(divided_up(choice_.size, replicas) * replicas));
  }

  const Prepared& prepared_;
  const Plan& plan_;
  const Options& options_;
  ResidentChooser& resident_;
  const ThisMachine& machine_;
  const Placement placement_;  // for any number of shards
  MiniBatchChoice choice_;
};

}  // namespace

MiniBatchChoice choose_mini_batch(Prepared& prepared, const Options& options, const ThisMachine& machine,
                                  ResidentChooser& resident) {
  const auto choose = [&] { return MiniBatchChooser(prepared, options, machine, resident).choose(); };
  MiniBatchChoice choice = choose();
  return keeps_module_pass(prepared, divided_up(choice.size, used_shards(choice.shards, choice.size)))
             ? choice
             : choose();
}

MiniBatchChoice mini_batch_of(const Plan& earlier, const Options& options) {
  MiniBatchChoice choice{.size = earlier.step.mini_batch_size,
                         .shards = earlier.step.shards,
                         .batch_norm_group = earlier.step.batch_norm_group,
                         .sampler_replicas = earlier.step.sampler_replicas};
  if (options.scale_with_workers != ScaleWithWorkers::none) {
    choice.reason = scaling_reason(options);
  } else if (options.mini_batch_size.is_auto()) {
    choice.reason = "auto, as when the run began";
  }
  return choice;
}

}  // namespace lockstep::train
