// Images that the workers of a custom loop share, and validation data that a model keeps.
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/data/survey.h"
#include "lockstep/train/custom/learnables.h"
#include "lockstep/train/custom/test_loops.h"
#include "lockstep/train/custom/validate.h"

namespace lockstep::train {
namespace {

using namespace test;

// In each epoch a worker has other samples, so every worker gets each of them. Rank 1 reads after rank 0, so
// they never decode one sample at the same time.
TEST(CustomLoop, WorkersThatShareTheirImagesDecodeEachOnce) {
  const auto counted = std::make_shared<CountedHalves>(90);
  on_workers(2, [counted](pool::Worker& worker) {
    if (worker.rank() == 1) worker.comm().barrier();
    data::MiniBatchQueue queue(
        data::Dataset(counted), worker.share(),
        {.mini_batch_size = 20, .order = {.seed = 7}, .epochs = 5, .shared = shared_images(worker)});
    while (queue.next()) {
    }
    if (worker.rank() == 0) worker.comm().barrier();
    worker.comm().barrier();  // images are kept as long as rank 0's queue exists
    return 0;
  });
  EXPECT_EQ(counted->reads(), 90);
}

TEST(CustomLoop, SharedImagesAndKeptValidationDataChangeNoBit) {
  const auto run = [](int64_t workers, bool share) {
    const data::Dataset images = halves(90);
    const auto held_out = std::make_shared<CountedHalves>(41);
    const auto numbers = on_workers(workers, [&](pool::Worker& worker) {
      const BuiltModel model = build(worker, net(), images, {.seed = 3});
      Sgdm sgdm(model.parameters(), {.learning_rate = 0.02});
      data::QueueOptions options{.mini_batch_size = 20, .shards = 5, .order = {.seed = 7}, .epochs = 3};
      if (share) options.shared = shared_images(worker);
      std::vector<double> losses;
      for (const auto& batch : data::MiniBatchQueue(images, worker.share(), options)) {
        sgdm.step(exchange(worker, loss_and_gradients(model, batch, loss_of(model))).gradients);
        if (batch.ends_epoch) losses.push_back(validate(model, data::Dataset(held_out), worker.comm()).loss);
      }
      const auto not_kept =
          std::make_shared<const data::ImageSet>(halves(41), data::format_of(halves(41)), /*most_bytes=*/0);
      EXPECT_EQ(validate(model, not_kept, worker.comm()).loss, losses.back());
      return std::pair(model.hash(), losses);
    });
    EXPECT_EQ(held_out->reads(), 41) << "three validations";
    return numbers;
  };
  const auto expected = run(1, false);
  EXPECT_EQ(expected.second.size(), 3U);
  for (const int64_t workers : {1, 2, 3}) EXPECT_EQ(run(workers, true), expected) << workers << " workers";
}

TEST(CustomLoop, AModelKeepsTheLastDatasetItWasValidatedOn) {
  on_workers(1, [](pool::Worker& worker) {
    const data::ImageShare& share = *shared_images(worker).share;
    constexpr int64_t kImageBytes = 36;
    {
      const BuiltModel model = build(worker, net(), halves(41));
      accuracy(model, halves(41), worker.comm());
      EXPECT_EQ(share.kept_bytes(), 41 * kImageBytes);
      accuracy(model, halves(30), worker.comm());
      EXPECT_EQ(share.kept_bytes(), 30 * kImageBytes);
      EXPECT_THROW(accuracy(model, {}, worker.comm()), Error);
    }
    EXPECT_EQ(share.kept_bytes(), 0);
    return 0;
  });
}

}  // namespace
}  // namespace lockstep::train
