#include "lockstep/data/loading_line.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

constexpr int64_t kLoadedBytes = 1000, kLoadedSamples = 500;

void paint_loaded(int64_t index, std::span<uint8_t> image) {
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<uint8_t>(index + static_cast<int64_t>(i));
}

std::vector<uint8_t> loaded_image(int64_t index) {
  std::vector<uint8_t> image(kLoadedBytes);
  paint_loaded(index, image);
  return image;
}

std::unique_ptr<LoadingEnd> loader_of(const LoadingLine& line) {
  return std::make_unique<LoadingEnd>(::fcntl(line.descriptor(), F_DUPFD_CLOEXEC, 0), [] { return true; });
}

// Expects ten samples at a time and reads them; how many came from loaders.
int64_t read_loaded(LoadingLine& line) {
  std::vector<uint8_t> image(kLoadedBytes);
  int64_t taken = 0;
  for (int64_t first = 0; first < kLoadedSamples; first += 10) {
    std::vector<int64_t> indices(10);
    std::iota(indices.begin(), indices.end(), first);
    line.expect(indices);
    for (const int64_t index : indices) {
      std::ranges::fill(image, uint8_t{0});
      if (!line.take(index, image)) continue;
      ++taken;
      EXPECT_EQ(image, loaded_image(index));
    }
  }
  EXPECT_EQ(line.taken_count(), taken);
  return taken;
}

TEST(LoadingLine, SeveralLoadersDecodeWhatTheTrainerExpects) {
  auto line = std::make_unique<LoadingLine>();
  std::atomic<int64_t> decoded = 0;
  std::vector<std::jthread> loaders;
  for (int loader = 0; loader < 2; ++loader) {
    loaders.emplace_back([&decoded, end = std::shared_ptr(loader_of(*line))] {
      while (const auto text = end->next()) {
        EXPECT_EQ(*text, "digits");
        decoded += end->serve(2, paint_loaded);
      }
    });
  }
  line->open("digits", kLoadedBytes, 20);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const int64_t taken = read_loaded(*line);
  EXPECT_GT(taken, kLoadedSamples / 2);
  line.reset();
  loaders.clear();
  EXPECT_GE(decoded, taken);
}

TEST(LoadingLine, WithoutALoaderTheTrainerDecodesAndDoesNotWait) {
  LoadingLine line;
  line.open("nobody", kLoadedBytes, 20);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(read_loaded(line), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  std::vector<uint8_t> image(kLoadedBytes);
  EXPECT_FALSE(line.take(3, image)) << "nobody expected it";
}

TEST(LoadingLine, ASampleThatCannotBeDecodedIsTheTrainers) {
  std::jthread loader;  // ends after the line
  LoadingLine line;
  loader = std::jthread([end = std::shared_ptr(loader_of(line))] {
    while (end->next())
      end->serve(1, [](int64_t index, std::span<uint8_t> image) {
        if (index == 2) throw Error(ErrorCode::corrupt_data, "no image");
        paint_loaded(index, image);
      });
  });
  line.open("", kLoadedBytes, 4);
  std::vector<uint8_t> image(kLoadedBytes);
  for (int round = 0; round < 100; ++round) {
    line.expect(std::array<int64_t, 2>{1, 2});
    EXPECT_FALSE(line.take(2, image));
    if (line.take(1, image)) {
      EXPECT_EQ(image, loaded_image(1));
    }
  }
  // Another set of the same numbers, with images of another size.
  line.open("small", 10, 4);
  line.expect(std::array<int64_t, 1>{1});
  std::vector<uint8_t> small(10);
  for (int i = 0; i < 100 && !line.take(1, small); ++i) line.expect(std::array<int64_t, 1>{1});
  EXPECT_EQ(small.front(), 1);
}

TEST(LoadingLine, ALoaderLeavesWhenTheTrainerIsGone) {
  LoadingLine line;
  LoadingEnd end(::fcntl(line.descriptor(), F_DUPFD_CLOEXEC, 0), [] { return false; });
  EXPECT_FALSE(end.next());
  line.open("", kLoadedBytes, 4);
  EXPECT_TRUE(end.next());
  EXPECT_EQ(end.serve(1, paint_loaded), 0);
}

}  // namespace
}  // namespace lockstep::data
