// Where the workers of a pool are, and pools on named GPUs: those of the stand-ins of gpus_test.py.
#include <unistd.h>

#include <gmock/gmock.h>

#include "lockstep/base/host.h"
#include "lockstep/device/gpus.h"

#include "tasks.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(FitOnPool, ClientAndTasksAskWhereAWorkerIs) {
  const auto there = device::gpus();
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    const pool::Pool pool = open(kind, 2);
    const auto told = pool.spmd(info_task);
    const auto known = pool.workers();
    for (size_t i = 0; i < 2; ++i) {
      const bool has_gpu = i < there.size();
      for (const pool::WorkerInfo& info : {told[i], known[i]}) {
        EXPECT_EQ(info.index, static_cast<int64_t>(i));
        EXPECT_EQ(info.process, known[i].process);
        EXPECT_EQ(info.process == ::getpid(), kind == pool::PoolKind::threads);
        EXPECT_EQ(info.host, host_name());
        EXPECT_EQ(info.gpu, has_gpu ? static_cast<int64_t>(i) : -1);
        EXPECT_EQ(info.gpu_name, has_gpu ? there[i].name : "");
      }
      EXPECT_TRUE(told[i].busy);
    }
  }
}

TEST_F(FitOnPool, OfAPoolWithGpusOnlyWorkersThatHaveOneTrain) {
  if (device::gpus().empty()) GTEST_SKIP() << "there is no GPU";
  const auto gpus = static_cast<int64_t>(device::gpus().size());
  train_alone("alone");
  for (const auto kind : {pool::PoolKind::threads, pool::PoolKind::processes}) {
    open(kind, gpus + 2);
    const std::string run = std::string("some-") + enum_names(kind)[static_cast<size_t>(kind)];
    Trial parallel = trial(run);
    parallel.execution = "parallel";
    train::fit(*session, nn::find_network("mlp"), corners(64), options_of(parallel));
    EXPECT_EQ(workers_of(folder_ / run), gpus);
    EXPECT_EQ(weights(run), weights("alone"));
  }
}

TEST_F(FitOnPool, APoolIsOnTheGpusThatWereNamed) {
  const auto open_on = [](pool::PoolKind kind, std::vector<int64_t> gpus, int64_t workers = 0) {
    return session->open_pool({.kind = kind, .workers = workers, .gpus = std::move(gpus), .quiet = true});
  };
  const auto threads = pool::PoolKind::threads;
  const auto there = device::gpus();
  if (there.empty()) {
    EXPECT_THAT(error_from([&] {
                  open_on(threads, {0, 2});
                }).message(),
                HasSubstr("a pool cannot be opened on GPU 0: there is no GPU to use: "));
    return;
  }
  ASSERT_EQ(there.size(), 4U) << "the stand-ins of gpus_test.py";
  EXPECT_EQ(there[2].index, 2);
  EXPECT_EQ(there[2].memory_bytes, int64_t{1} << 30);
  EXPECT_EQ(there[2].free_memory_bytes, int64_t{1} << 30);
  train_alone("alone");
  for (const auto kind : {threads, pool::PoolKind::processes}) {
    const std::string run = std::string("two-") + enum_names(kind)[static_cast<size_t>(kind)];
    const pool::Pool pool = open_on(kind, {0, 2});
    ASSERT_EQ(pool.size(), 2);
    EXPECT_EQ(session->open_pool({.quiet = true}).size(), 2) << "nothing is asked for";
    const auto infos = pool.spmd(info_task);
    EXPECT_EQ(infos[0].gpu, 0);
    EXPECT_EQ(infos[1].gpu, 2);
    EXPECT_EQ(pool.workers()[1].gpu, 2);
    EXPECT_EQ(infos[1].gpu_name, there[2].name);
    Trial parallel = trial(run);
    parallel.execution = "parallel";
    train::fit(*session, nn::find_network("mlp"), corners(64), options_of(parallel));
    EXPECT_EQ(weights(run), weights("alone"));
  }
  const pool::Pool four = open_on(threads, {2, 0}, 4);
  std::vector<int64_t> gpus;
  for (const pool::WorkerInfo& info : four.workers()) gpus.push_back(info.gpu);
  EXPECT_THAT(gpus, testing::ElementsAre(2, 2, 0, 0));
  Trial shared = trial("shared");
  shared.execution = "parallel";
  train::fit(*session, nn::find_network("mlp"), corners(64), options_of(shared));
  EXPECT_EQ(workers_of(folder_ / "shared"), 4);
  EXPECT_EQ(weights("shared"), weights("alone"));

  const Error absent = error_from([&] { open_on(threads, {0, 7}); });
  EXPECT_THAT(absent.message(), AllOf(HasSubstr("on GPU 7, which is not there"),
                                      HasSubstr("0 (stand-in), 1 (stand-in), 2 (stand-in), 3 (stand-in)")));
  EXPECT_THAT(error_from([&] { open_on(threads, {1, 1}); }).message(), HasSubstr("name GPU 1 twice"));
  const Error uneven = error_from([&] { open_on(threads, {0, 2}, 3); });
  EXPECT_THAT(uneven.message(), HasSubstr("3 workers cannot share the 2 GPUs of a pool evenly"));
  EXPECT_THAT(uneven.hint(), HasSubstr(".workers = 4"));
}

}  // namespace
}  // namespace lockstep
