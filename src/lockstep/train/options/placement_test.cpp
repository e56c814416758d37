#include "lockstep/train/options/placement.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

device::Inventory machine(int64_t cores, int64_t gpus) {
  device::Inventory inventory;
  inventory.cores_online = inventory.cores = cores;
  for (int64_t i = 0; i < gpus; ++i) inventory.gpus.push_back({i, "NVIDIA Test", int64_t{8} << 30, "9.0"});
  if (gpus == 0) {
    inventory.gpu_note = "no NVIDIA driver on this machine";
    inventory.gpu_hint = "a GPU needs NVIDIA's driver";
  }
  return inventory;
}

Options asked(Execution execution, std::vector<int64_t> devices = {}, int64_t workers = 0) {
  Options options;
  options.execution = execution;
  options.devices = std::move(devices);
  options.workers = workers;
  return options;
}

Placement place(Options options, const device::Inventory& inventory) {
  return resolve_placement(options, 8, inventory);
}

Error refusal(Options options, const device::Inventory& inventory) {
  try {
    const Placement placement = place(std::move(options), inventory);
    ADD_FAILURE() << "placed on " << placement.device;
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, ""};
}

TEST(Placement, AGpuThatWasAskedForIsNeverACpu) {
  for (const Execution execution : {Execution::gpu, Execution::multi_gpu}) {
    const Error error = refusal(asked(execution), machine(4, 0));
    EXPECT_EQ(error.code(), ErrorCode::device);
    EXPECT_THAT(error.message(), HasSubstr("no NVIDIA driver on this machine"));
    EXPECT_THAT(error.hint(), HasSubstr("a GPU needs NVIDIA's driver; --execution cpu"));
  }
  EXPECT_EQ(refusal(asked(Execution::auto_, {0}), machine(4, 0)).code(), ErrorCode::device);
  EXPECT_EQ(refusal(asked(Execution::gpu, {99}), machine(4, 0)).code(), ErrorCode::device);
}

TEST(Placement, AutoTakesAGpuIfThereIsOne) {
  const Placement on_gpu = place({}, machine(4, 2));
  EXPECT_EQ(on_gpu.device, "cuda");
  EXPECT_THAT(on_gpu.devices, ElementsAre(0));
  EXPECT_EQ(on_gpu.workers, 1);
  const Placement on_cores = place({}, machine(4, 0));
  EXPECT_EQ(on_cores.device, "cpu");
  EXPECT_EQ(on_cores.workers, 4);
  EXPECT_THAT(on_cores.device_reason, HasSubstr("no NVIDIA driver"));
  EXPECT_EQ(place(asked(Execution::cpu), machine(4, 2)).device, "cpu");
}

TEST(Placement, TheGpuThatIsNamedIsUsed) {
  EXPECT_THAT(place(asked(Execution::gpu, {1}), machine(4, 2)).devices, ElementsAre(1));
  EXPECT_THAT(place(asked(Execution::multi_gpu), machine(4, 1)).devices, ElementsAre(0));
  EXPECT_THAT(refusal(asked(Execution::gpu, {2}), machine(4, 2)).message(),
              HasSubstr("there is no GPU 2: this machine has 2"));
  EXPECT_THAT(refusal(asked(Execution::auto_, {1, 1}), machine(4, 2)).message(),
              HasSubstr("names GPU 1 twice"));
  EXPECT_EQ(refusal(asked(Execution::cpu, {0}), machine(4, 2)).code(), ErrorCode::invalid_option);
}

TEST(Placement, WorkersTakeGpusInTurn) {
  const Placement all = place(asked(Execution::multi_gpu), machine(4, 2));
  EXPECT_THAT(all.devices, ElementsAre(0, 1));
  EXPECT_EQ(all.workers, 2);
  EXPECT_EQ(place(asked(Execution::parallel), machine(4, 2)).workers, 2);
  EXPECT_EQ(place(asked(Execution::gpu, {1, 0}), machine(4, 4)).workers, 2);
  EXPECT_THAT(place(asked(Execution::gpu, {}, 2), machine(4, 4)).devices, ElementsAre(0, 1));
  const Placement shared = place(asked(Execution::gpu, {}, 4), machine(4, 2));
  EXPECT_THAT(shared.devices, ElementsAre(0, 1));
  EXPECT_EQ(shared.workers, 4);
  EXPECT_THAT(shared.workers_reason, HasSubstr("2 share each GPU"));
  EXPECT_THAT(place(asked(Execution::gpu, {1}, 4), machine(4, 2)).devices, ElementsAre(1));
  const Error uneven = refusal(asked(Execution::multi_gpu, {}, 5), machine(4, 2));
  EXPECT_THAT(uneven.message(), HasSubstr("5 workers cannot share 2 GPUs evenly"));
  EXPECT_THAT(uneven.hint(), HasSubstr("--workers 4 or 6"));
}

TEST(Placement, GpusOfDifferentKindsAreRefused) {
  device::Inventory mixed = machine(4, 3);
  mixed.gpus[1].name = "NVIDIA Other";
  EXPECT_THAT(refusal(asked(Execution::multi_gpu), mixed).message(),
              HasSubstr("GPU 0 (NVIDIA Test) and GPU 1 (NVIDIA Other) are of different kinds"));
  EXPECT_THAT(place(asked(Execution::auto_, {0, 2}), mixed).devices, ElementsAre(0, 2));
}

TEST(Placement, ARankOfSeveralProcessesHasTheGpuOfItsPlaceOnTheMachine) {
  const Placement second = resolve_placement(asked(Execution::auto_), 8, machine(4, 2),
                                             {.grouped = true, .count = 4, .way = "gloo", .here = 1});
  EXPECT_THAT(second.devices, ElementsAre(1));
  EXPECT_EQ(second.gpu, 1);
  EXPECT_EQ(second.workers, 4);
  EXPECT_EQ(resolve_placement(asked(Execution::auto_, {1, 0}, 2), 8, machine(4, 2),
                              {.grouped = true, .count = 2, .here = 1})
                .gpu,
            0);
  EXPECT_EQ(resolve_placement(asked(Execution::auto_, {1, 0}, 2), 8, machine(4, 2),
                              {.grouped = true, .count = 2, .here = 1})
                .workers,
            4);
  EXPECT_THROW(
      resolve_placement(asked(Execution::auto_), 8, machine(4, 2), {.grouped = true, .count = 3, .here = 2}),
      Error);
  EXPECT_EQ(
      resolve_placement(asked(Execution::auto_), 8, machine(4, 1), {.grouped = true, .count = 2, .here = 1})
          .gpu,
      0);  // a launcher showed it its own only
}

TEST(Placement, LoadsFitTheRanks) {
  Options options;
  Plan plan;
  EXPECT_TRUE(rank_loads(options, plan, 2).empty());
  options.worker_load = {2, 1};
  EXPECT_THAT(rank_loads(options, plan, 2), ElementsAre(2, 1));
  EXPECT_THROW(rank_loads(options, plan, 1), Error);
  EXPECT_THROW(rank_loads(options, plan, 3), Error);
  plan.data.streamed = true;
  EXPECT_THROW(rank_loads(options, plan, 2), Error);
}

TEST(Placement, ShardsAreFewerWhereEachIsComputedAlone) {
  Plan plan;
  plan.network.learned_count = 20'000'000;
  plan.network.sums_shards = true;
  EXPECT_EQ(why_shards_alone(plan, "cpu"), "");
  EXPECT_EQ(default_shards(plan, "cpu", 128), 32);
  EXPECT_EQ(default_shards(plan, "cpu", 16), 4);
  EXPECT_EQ(why_shards_alone(plan, "cuda"), "the GPU");
  EXPECT_EQ(default_shards(plan, "cuda", 128), 8);
  const auto why = [&](const std::function<void(Plan&)>& change) {
    Plan changed = plan;
    change(changed);
    EXPECT_LE(default_shards(changed, "cpu", 128), 8);
    return why_shards_alone(changed, "cpu");
  };
  EXPECT_EQ(why([](Plan& one) { one.step.accumulate = 2; }), "--accumulate");
  EXPECT_EQ(why([](Plan& one) { one.step.kernels = Kernels::engine; }), "--kernels engine");
  EXPECT_EQ(why([](Plan& one) { one.step.precision = Precision::double_; }), "--precision 64-true");
  EXPECT_EQ(why([](Plan& one) { one.data.augment.mixup = 0.2; }), "mixup");
  EXPECT_EQ(why([](Plan& one) { one.data.class_weights = {1, 2}; }), "--class-weights");
  EXPECT_EQ(why([](Plan& one) { one.network.frozen_layers = 3; }), "the frozen first layers");
  EXPECT_EQ(why([](Plan& one) { one.exchange.kind = ExchangeKind::average; }), "--exchange average");
  plan.network.sums_shards = false;
  EXPECT_THAT(why_shards_alone(plan, "cpu"), HasSubstr("a module"));
  EXPECT_EQ(default_shards(plan, "cpu", 128), 2);
  plan.network.input.time_steps = 9;
  EXPECT_EQ(why_shards_alone(plan, "cpu"), "the sequences");
}

TEST(Placement, ARankThatNeedsAGpuDoesNotTrainOnACpu) {
  const Ranks ranks{.grouped = true, .count = 2, .way = "gloo", .needs_gpus = true};
  try {
    resolve_placement(asked(Execution::auto_), 8, machine(4, 0), ranks);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("fast-multinode is on"));
    EXPECT_THAT(error.message(), HasSubstr("this rank has no GPU"));
  }
  EXPECT_EQ(resolve_placement(asked(Execution::auto_), 8, machine(4, 2), ranks).device, "cuda");
}

TEST(Placement, TheGpusOfOneProcessAreItsRanks) {
  const Placement second =
      resolve_placement(asked(Execution::multi_gpu, {}, 4), 8, machine(4, 2),
                        {.grouped = true, .count = 2, .way = "threads", .here = 1, .is_gpu = true});
  EXPECT_THAT(second.devices, ElementsAre(0, 1));
  EXPECT_EQ(second.gpu, 1);
  EXPECT_EQ(second.workers, 4);
}

}  // namespace
}  // namespace lockstep::train
