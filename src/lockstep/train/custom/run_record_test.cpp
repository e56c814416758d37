// How the record of a custom loop ends when its task is cancelled or another rank fails.
#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/base/test_folder.h"
#include "lockstep/record/status_file.h"
#include "lockstep/train/custom/learnables.h"
#include "lockstep/train/custom/run_record.h"
#include "lockstep/train/custom/test_loops.h"
#include "lockstep/train/loop/checkpoint.h"

namespace lockstep::train {
namespace {

using namespace test;

// After every step, with the number of steps done.
using AfterStep = std::function<void(pool::Worker&, int64_t)>;

uint64_t train_recorded(pool::Worker& worker, const std::filesystem::path& output, const AfterStep& after,
                        const AfterStep& after_update = {}) {
  const BuiltModel model = build(worker, net(), halves(60), {.seed = 3});
  Sgdm sgdm(model.parameters(), {.learning_rate = 0.02});
  record_run(worker, model, &sgdm, {.output = output, .resume = true}, [&](RunRecord& run) {
    const auto options =
        run.from_here({.mini_batch_size = 10, .shards = 5, .order = {.seed = 7}, .epochs = 2});
    for (const auto& batch : data::MiniBatchQueue(halves(60), worker.share(), options)) {
      const auto whole = exchange(worker, loss_and_gradients(model, batch, loss_of(model)));
      sgdm.step(whole.gradients);
      if (after_update) after_update(worker, run.steps());
      if (!run.step(batch, whole)) return;
      if (after) after(worker, run.steps());
    }
  });
  return model.hash();
}

record::RunState state_in(const std::filesystem::path& run) { return record::read_status(run)->state; }

class RunRecordEnd : public ::testing::Test {
 protected:
  // A loop that waits from this moment until it is cancelled.
  void cancel_at(int64_t step, bool inside) {
    std::atomic<int> waits = 0;
    const AfterStep wait = [&](pool::Worker& worker, int64_t done) {
      if (done != step) return;
      ++waits;
      while (true) worker.comm().barrier();
    };
    pool::Session session;
    const auto future = session.open_pool({.workers = 2, .quiet = true})
                            .parfeval(pool::CallOptions{.workers = 2}, [&](pool::Worker& worker) {
                              return train_recorded(worker, output_, inside ? AfterStep() : wait,
                                                    inside ? wait : AfterStep());
                            });
    while (waits < 2 && !future.done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    future.cancel();
    ASSERT_TRUE(future.wait(std::chrono::seconds(60)));
    EXPECT_EQ(future.state(), pool::FutureState::cancelled);
  }

  uint64_t resume() const {
    return on_workers(1, [&](pool::Worker& worker) { return train_recorded(worker, output_, {}); });
  }

  const lockstep::test::TemporaryFolder folder_{};
  const std::filesystem::path output_ = folder_.path() / "run";
};

TEST_F(RunRecordEnd, ACancelledLoopIsStoppedWithACheckpoint) {
  const uint64_t whole = on_workers(
      2, [&](pool::Worker& worker) { return train_recorded(worker, folder_.path() / "whole", {}); });
  cancel_at(3, /*inside=*/false);
  EXPECT_EQ(state_in(output_), record::RunState::stopped);
  ASSERT_TRUE(last_checkpoint(output_).has_value());
  EXPECT_EQ(last_checkpoint(output_)->state.step, 3);
  EXPECT_EQ(resume(), whole);
  EXPECT_EQ(state_in(output_), record::RunState::ended);
}

TEST_F(RunRecordEnd, AnUpdateThatNoStepFollowsIsInNoCheckpoint) {
  const uint64_t whole = on_workers(
      2, [&](pool::Worker& worker) { return train_recorded(worker, folder_.path() / "whole", {}); });
  cancel_at(8, /*inside=*/true);
  EXPECT_EQ(state_in(output_), record::RunState::stopped);
  ASSERT_TRUE(last_checkpoint(output_).has_value());
  EXPECT_EQ(last_checkpoint(output_)->state.step, 6) << "the end of the first epoch";
  EXPECT_EQ(resume(), whole);
}

TEST_F(RunRecordEnd, TheFailureOfAnotherRankIsAFailure) {
  EXPECT_NE(error_on_workers(2,
                             [&](pool::Worker& worker) {
                               train_recorded(worker, output_, [](pool::Worker& one, int64_t done) {
                                 if (done < 3) return;
                                 if (one.rank() == 1) throw Error(ErrorCode::io, "the disk is gone");
                                 while (true) one.comm().barrier();
                               });
                             })
                .find("the disk is gone"),
            std::string::npos);
  EXPECT_EQ(state_in(output_), record::RunState::failed);
}

}  // namespace
}  // namespace lockstep::train
