#include "lockstep/train/inference/inference.h"

#include <algorithm>
#include <optional>
#include <semaphore>

#include <ATen/Parallel.h>
#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/data/centre.h"
#include "lockstep/device/isa.h"
#include "lockstep/device/memory.h"
#include "lockstep/nn/state.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/train/step/batch_norm.h"
#include "lockstep/train/step/evaluation_batches.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/options/on_worker.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/loop/ranks.h"
#include "lockstep/train/planning/resolve.h"
#include "lockstep/train/planning/this_machine.h"
#include "lockstep/train/step/shared_weights.h"
#include "lockstep/train/step/shard_runner.h"

namespace lockstep::train {
namespace {

int64_t parameter_count(const nn::Instance& instance) {
  int64_t count = 0;
  for (const auto& parameter : instance.module->parameters()) count += parameter.numel();
  return count;
}

constexpr int64_t kReadAheadBytes = int64_t{48} << 20;
constexpr int64_t kMostReadAhead = 4;  // mini-batches

// Decoded images that wait for all workers need at most about kReadAheadBytes.
int64_t read_ahead_of(const nn::NetworkInput& input, int64_t mini_batch_size) {
  const int64_t bytes = mini_batch_size * input.channels *
                        (input.time_steps > 0 ? input.time_steps * static_cast<int64_t>(sizeof(float))
                                              : input.height * input.width);
  return std::clamp<int64_t>(kReadAheadBytes / std::max<int64_t>(1, bytes), 1, kMostReadAhead);
}

nn::SafetensorsFile weights_of(const Model& model) {
  return model.state.empty() ? nn::read_weights(model.weights) : nn::SafetensorsFile{model.state, {}};
}

// A rank with other samples or another model would store its scores in the place of others.
void compare_ranks(comm::Communicator& comm, Json own, const data::Dataset& dataset) {
  const std::string first = dataset.size() > 0 ? dataset.store().source(0) : "none";
  own.update({{"images", dataset.size()},
              {"listing", dataset.size() > 0 ? as_hex(dataset.store().listing_hash()) : "none"}});
  const Json rank_0 = broadcast_json(comm, {{"own", own}, {"first", first}});
  compare_with_rank_0(comm, own, rank_0["own"], first, rank_0["first"].get<std::string>());
}

// As in a plan, as far as it decides how shards are computed.
Plan plan_of_shards(const nn::Instance& prototype, const Options& options) {
  Plan plan;
  plan.network.learned_count = parameter_count(prototype);
  plan.network.sums_shards = layers_keep_apart(prototype);
  plan.step = resolve_step(options);
  return plan;
}

// Each has weights of its own until it has those of the model.
constexpr std::ptrdiff_t kNetworksMadeAtOnce = 8;

// One of the places of a semaphore.
class Place {
 public:
  explicit Place(std::counting_semaphore<>& places) : places_(places) { places_.acquire(); }
  ~Place() { places_.release(); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  std::counting_semaphore<>& places_;
};

}  // namespace

void for_each_shard(Model model, const data::Dataset& dataset, const Options& options, size_t feature_steps,
                    const Together& together, const ShardWork& work) {
  check_values(options);
  device::keep_freed_memory();
  const auto type = number_type(options.precision);
  const nn::Instance prototype = seeded_instance(model.network, model.input, 0);
  nn::convert_floating(*prototype.module, type);  // weights may be in float64
  nn::load_state(*prototype.module, weights_of(model),
                 model.weights.empty() ? model.network.name() : model.weights.string());
  const Plan plan = plan_of_shards(prototype, options);
  const ThisMachine machine{.inventory = machine_here(options), .ranks = together.ranks};
  const std::string device_kind = machine.place_any_shards(options).device;
  const int64_t shards =
      options.shards > 0 ? options.shards : default_shards(plan, device_kind, options.mini_batch_size);
  const Placement placement = resolve_placement(options, shards, machine.inventory, machine.ranks);
  const SharedWeights weights(prototype, type, open_device(placement.device, placement.gpu));
  if (placement.devices.size() <= 1) model.state.clear();  // each GPU loads them
  device::give_freed_memory_back();                        // what these and the prototype's own weights held
  compare_ranks(together.comm,
                {{"shards", shards},
                 {"mini-batch", options.mini_batch_size},
                 {"weights", as_hex(weights.hash())},
                 {"arithmetic", device::arithmetic_fingerprint(placement.devices)}},
                dataset);
  const auto norms = probe_batch_norms(prototype, model.input);
  data::ImageFormat format = format_of(model);
  if (model.decode == data::Decode::gpu && !placement.devices.empty()) {
    format.decode = data::Decode::gpu;
    format.jpeg_decoder = open_jpeg_decoder(placement);
  }
  const data::Dataset fitted =
      model.resize_to.empty() ? dataset : data::cut_out_centre(dataset, format, model.resize_to);
  const auto images = std::make_shared<const data::ImageSet>(fitted, format, /*most_bytes=*/0);

  std::counting_semaphore<> places(kNetworksMadeAtOnce);
  comm::ThreadGroup group(placement.workers / together.comm.size());
  group.run([&](Share thread) {
    at::set_num_threads(1);
    const at::Device device =
        placement.devices.empty() || together.ranks.grouped
            ? weights.device()
            : open_device(placement.device,
                          placement.devices[static_cast<size_t>(owner_of(
                              thread.size, static_cast<int64_t>(placement.devices.size()), thread.rank))]);
    std::optional<Place> place(std::in_place, places);
    nn::Instance instance = thread.rank == 0 ? prototype : seeded_instance(model.network, model.input, 0);
    std::optional<SharedWeights> own;  // on a GPU other than the first
    if (device != weights.device()) {
      nn::load_state(*instance.module, weights_of(model),
                     model.weights.empty() ? model.network.name() : model.weights.string());
      own.emplace(instance, type, device);
    } else if (thread.rank != 0) {
      weights.alias(instance);
    }
    place.reset();
    ShardRunner runner(instance, own ? *own : weights, norms,
                       {.format = {type, device, model.mean, model.deviation},
                        .precision = options.precision,
                        .kernels = options.kernels,
                        .padded_left = model.padding == data::PaddingSide::left,
                        .frozen = {feature_steps}});
    runner.begin_evaluation();
    const Share all{together.comm.rank() * thread.size + thread.rank, together.comm.size() * thread.size};
    data::MiniBatchQueue queue(images, all,
                               {.mini_batch_size = options.mini_batch_size,
                                .shards = shards,
                                .ranks = together.comm.size(),
                                .order = {.shuffle = data::Shuffle::never},
                                .read_ahead = read_ahead_of(model.input, options.mini_batch_size),
                                .pinned = device.is_cuda()});
    EvaluationBatches batches(runner, plan, device_kind);
    while (const auto batch = queue.next(together.stop)) {
      batches.for_each(batch->shards, [&](const data::Shard& shard, int64_t) {
        work(runner, shard, batch->cursor.step * options.mini_batch_size + shard.first);
        if (together.done) together.done(shard.count);
      });
    }
  });
  if (together.stop.stop_requested())
    throw Error(ErrorCode::cancelled, "stopped before all samples were done");
}

}  // namespace lockstep::train
