#include "lockstep/data/collect.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::data {
namespace {

using testing::HasSubstr;

MiniBatch batch_of(int64_t count, int64_t first) {
  const at::Tensor numbers = at::arange(first, first + count);
  return {numbers.to(at::kByte).view({count, 1, 1, 1}).expand({count, 3, 2, 5}), numbers.remainder(3)};
}

NextMiniBatch one_by_one(std::vector<MiniBatch> batches) {
  return [batches = std::move(batches), next = size_t{0}]() mutable {
    return next < batches.size() ? std::optional(batches[next++]) : std::nullopt;
  };
}

TEST(Collect, KeepsSamplesAndTheirOrder) {
  const Collected collected = collect(one_by_one({batch_of(4, 0), batch_of(4, 4), batch_of(3, 8)}));
  EXPECT_EQ(collected.mini_batch_size, 4);
  ASSERT_EQ(collected.dataset.size(), 11);
  EXPECT_EQ(collected.dataset.classes(), (std::vector<std::string>{"0", "1", "2"}));
  for (int64_t i = 0; i < 11; ++i) {
    EXPECT_EQ(collected.dataset.store().label(i), i % 3);
    const Image image = collected.dataset.store().read(i);
    EXPECT_EQ((ImageSize{image.channels, image.height, image.width}), (ImageSize{3, 2, 5}));
    EXPECT_THAT(image.pixels, testing::Each(i));
  }
}

TEST(Collect, RefusesWhatDoesNotFitByNumber) {
  const auto said = [](std::vector<MiniBatch> batches) -> std::string {
    try {
      collect(one_by_one(std::move(batches)));
    } catch (const Error& error) {
      return error.message();
    }
    return "nothing";
  };
  EXPECT_THAT(said({}), HasSubstr("no mini-batch"));
  EXPECT_THAT(said({{}}), HasSubstr("mini-batch 1 has no images"));
  EXPECT_THAT(said({batch_of(4, 0), batch_of(3, 4), batch_of(4, 7)}),
              HasSubstr("mini-batch 3 or the previous one differs in size"));
  EXPECT_THAT(said({batch_of(4, 0), batch_of(5, 4)}), HasSubstr("mini-batch 2 or the previous one"));
  MiniBatch odd = batch_of(4, 0);
  odd.images = odd.images.to(at::kFloat);
  EXPECT_THAT(said({odd}), HasSubstr("mini-batch 1 has images of Float [4, 3, 2, 5]"));
  odd = batch_of(4, 0);
  odd.labels = odd.labels.narrow(0, 0, 3);
  EXPECT_THAT(said({odd}), HasSubstr("labels of Long [3] for 4 images"));
  odd = batch_of(4, 0);
  odd.labels = odd.labels - 1;
  EXPECT_THAT(said({odd}), HasSubstr("negative label"));
  odd = batch_of(4, 4);
  odd.images = odd.images.narrow(3, 0, 4);
  EXPECT_THAT(said({batch_of(4, 0), odd}), HasSubstr("mini-batch 2 has images of a different size"));
}

}  // namespace
}  // namespace lockstep::data
