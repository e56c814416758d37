#include "lockstep/data/image_cache.h"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/resource.h>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/data/centre.h"
#include "lockstep/data/internal/mapped_file.h"
#include "lockstep/data/internal/streamed_copy.h"
#include "lockstep/data/image_set.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/test_folders.h"
#include "lockstep/data/test_images.h"

namespace lockstep::data {
namespace test {

// As a full disk.
class FilesNoLongerThan {
 public:
  explicit FilesNoLongerThan(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FilesNoLongerThan() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace test

namespace {

using testing::HasSubstr;

constexpr int64_t kEnough = int64_t{1} << 30;
const ImageFormat kFormat{.channels = 3, .height = 8, .width = 6};

// Two classes of two images each.
class CacheTest : public testing::Test {
 protected:
  CacheTest() {
    for (const char* name : {"photos/a/1.png", "photos/b/3.png"})
      folder_.write(name, test::bytes_of(test::kColour8));
    for (const char* name : {"photos/a/2.jpg", "photos/b/4.jpg"})
      folder_.write(name, test::bytes_of(test::kJpegColour));
  }
  Dataset photos() const { return open_source(folder_.path() / "photos").dataset; }
  OpenedCache open(CacheUse use = CacheUse::make, int64_t most_bytes = kEnough) const {
    return open_image_cache(folder_.path() / "cache", photos().store(), kFormat, use, most_bytes);
  }

  // All images through a set that keeps none itself.
  std::vector<std::vector<uint8_t>> read_all(const Dataset& dataset,
                                             std::shared_ptr<const RecordFile> cache) const {
    const ImageSet set(dataset, kFormat, 0, std::move(cache));
    std::vector<std::vector<uint8_t>> images;
    for (int64_t i = 0; i < set.size(); ++i) {
      images.emplace_back(static_cast<size_t>(set.image_bytes()));
      set.read(i, images.back());
    }
    return images;
  }
  static int64_t count_in(const RecordFile& cache, int64_t images) {
    std::vector<uint8_t> memory(static_cast<size_t>(kFormat.size().bytes()));
    int64_t count = 0;
    for (int64_t i = 0; i < images; ++i) count += cache.read(i, memory);
    return count;
  }

  const lockstep::test::TemporaryFolder folder_;
};

TEST_F(CacheTest, GivesWhatDecodingGivesAndIsFoundAgain) {
  const auto decoded = read_all(photos(), nullptr);
  EXPECT_EQ(read_all(photos(), open().cache), decoded);
  const auto again = open(CacheUse::read).cache;
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(count_in(*again, 4), 4);
  EXPECT_EQ(read_all(photos(), again), decoded);
}

TEST_F(CacheTest, ServesChosenSamplesOfTheSameImages) {
  const auto cache = open().cache;
  const Dataset chosen = photos().subset({3, 1}).subset({1, 0});
  const auto decoded = read_all(chosen, nullptr);
  EXPECT_EQ(read_all(chosen, cache), decoded);
  EXPECT_EQ(count_in(*cache, 4), 2);
  EXPECT_EQ(read_all(chosen, cache), decoded);
}

TEST_F(CacheTest, ServesCentresApartFromWholeImages) {
  const auto whole = read_all(photos(), open().cache);
  const auto centres = [this] { return cut_out_centre(photos(), kFormat, {12, 12}); };
  const auto cache = [&](CacheUse use) {
    return open_image_cache(folder_.path() / "cache", centres().store(), kFormat, use, kEnough).cache;
  };
  EXPECT_EQ(cache(CacheUse::read), nullptr);
  const auto decoded = read_all(centres(), nullptr);
  EXPECT_NE(decoded, whole);
  EXPECT_EQ(read_all(centres(), cache(CacheUse::make)), decoded);
  ASSERT_NE(cache(CacheUse::read), nullptr);
  EXPECT_EQ(read_all(centres(), cache(CacheUse::read)), decoded);
}

TEST_F(CacheTest, ServesCentresOfChosenImages) {
  const auto centres = [&] { return cut_out_centre(photos().subset({3, 1}), kFormat, {12, 12}); };
  const auto opened =
      open_image_cache(folder_.path() / "cache", centres().store(), kFormat, CacheUse::make, kEnough);
  ASSERT_NE(opened.cache, nullptr) << opened.reason;
  EXPECT_EQ(read_all(centres(), opened.cache), read_all(centres(), nullptr));
  EXPECT_EQ(count_in(*opened.cache, 2), 2);
  folder_.write("photos/a/1.png", test::bytes_of(test::kGrey8));
  EXPECT_TRUE(
      open_image_cache(folder_.path() / "cache", centres().store(), kFormat, CacheUse::read, kEnough).stale);
}

TEST_F(CacheTest, IsMadeAnewWhenAFileChanges) {
  read_all(photos(), open().cache);
  folder_.write("photos/a/1.png", test::bytes_of(test::kGrey8));
  EXPECT_THAT(open(CacheUse::read).reason, HasSubstr("of other files"));
  const auto cache = open().cache;
  EXPECT_EQ(count_in(*cache, 4), 0);
  EXPECT_EQ(read_all(photos(), cache), read_all(photos(), nullptr));
}

TEST_F(CacheTest, IsMadeAnewWhenAFileHasOtherBytesAndTheOldTime) {
  read_all(photos(), open().cache);
  const auto path = folder_.path() / "photos/a/1.png";
  const auto time = std::filesystem::last_write_time(path);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // some file systems count in ticks
  folder_.write("photos/a/1.png", test::bytes_of(test::kColour8));
  std::filesystem::last_write_time(path, time);
  EXPECT_THAT(open(CacheUse::read).reason, HasSubstr("of other files"));
  EXPECT_EQ(count_in(*open().cache, 4), 0);
}

TEST_F(CacheTest, OtherFormatsHaveOtherFiles) {
  read_all(photos(), open().cache);
  ImageFormat other = kFormat;
  other.decode = Decode::fast;
  const auto opened =
      open_image_cache(folder_.path() / "cache", photos().store(), other, CacheUse::make, kEnough);
  EXPECT_EQ(count_in(*opened.cache, 4), 0);
  EXPECT_EQ(count_in(*open(CacheUse::read).cache, 4), 4);
}

TEST_F(CacheTest, DamagedAndCutFilesAreDecodedAgain) {
  const auto decoded = read_all(photos(), open().cache);
  const auto path = open().cache->path();
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  for (const int64_t at : {int64_t{0}, int64_t{20}, int64_t{4096}, int64_t{4200}, bytes - 1}) {
    {
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      file.seekg(at);
      const int byte = file.get();
      file.seekp(at);
      file.put(static_cast<char>(byte ^ 1));
    }
    EXPECT_EQ(read_all(photos(), open().cache), decoded) << at;
    EXPECT_EQ(count_in(*open().cache, 4), 4) << at;
  }
  std::filesystem::resize_file(path, 4100);
  EXPECT_EQ(open(CacheUse::read).cache, nullptr);
  EXPECT_EQ(read_all(photos(), open().cache), decoded);
  // Cut short by somebody else while it is in use.
  const auto cache = open().cache;
  std::filesystem::resize_file(path, 4100);
  EXPECT_EQ(count_in(*cache, 4), 0);
  EXPECT_EQ(read_all(photos(), cache), decoded);
}

TEST_F(CacheTest, RecordsThatWereGoodMayVanish) {
  const auto decoded = read_all(photos(), open().cache);
  const auto cache = open().cache;
  EXPECT_EQ(count_in(*cache, 4), 4);
  std::filesystem::resize_file(cache->path(), 100);  // no page of a record is left
  EXPECT_EQ(count_in(*cache, 4), 0);
  EXPECT_EQ(read_all(photos(), cache), decoded);
  std::filesystem::resize_file(cache->path(), 10'000);
  EXPECT_EQ(read_all(photos(), cache), decoded);
}

TEST(BusErrorDeathTest, OfOthersEndTheProcessAsEver) {
  const lockstep::test::TemporaryFolder folder;
  folder.write("file", std::string(10'000, 'x'));
  const OpenFile file(folder.path() / "file", O_RDONLY);
  const MappedFile mapped(file.get(), 10'000, file.path());
  EXPECT_EXIT(
      ::raise(SIGBUS), [](int status) { return status != 0; }, "");  // a sanitizer has another status
}

TEST(StreamedCopy, CopiesAnyLengthToAnyPlace) {
  std::vector<uint8_t> from(kStreamedBytes + 300), expected;
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 7 + i / 256);
  for (const size_t bytes : {size_t{0}, size_t{1}, kStreamedBytes - 1, kStreamedBytes, kStreamedBytes + 1,
                             kStreamedBytes + 63, kStreamedBytes + 200}) {
    for (const size_t place : {size_t{0}, size_t{1}, size_t{63}}) {
      std::vector<uint8_t> to(bytes + 128, 9);
      expected.assign(to.size(), 9);
      std::copy_n(from.begin() + 5, bytes, expected.begin() + static_cast<ptrdiff_t>(place));
      streamed_copy(from.data() + 5, std::span(to).subspan(place, bytes));
      EXPECT_EQ(to, expected) << bytes << " at " << place;
    }
  }
}

TEST_F(CacheTest, SaysWhyThereIsNone) {
  EXPECT_THAT(open(CacheUse::read).reason, HasSubstr("none exists"));
  EXPECT_FALSE(open(CacheUse::read).stale);
  EXPECT_THAT(open(CacheUse::read, 1000).reason, HasSubstr("more than the limit of 1000 B"));
  EXPECT_THAT(open(CacheUse::make, 1000).reason, HasSubstr("more than the limit of 1000 B"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "cache"));
  folder_.write("file", "");
  EXPECT_THROW(open_image_cache(folder_.path() / "file", photos().store(), kFormat, CacheUse::make, kEnough),
               Error);
}

TEST_F(CacheTest, ADiskThatTakesNoMoreIsNoFailureOfTheReader) {
  const auto decoded = read_all(photos(), nullptr);
  const auto cache = open().cache;
  const test::FilesNoLongerThan limit(4096);
  EXPECT_EQ(read_all(photos(), cache), decoded);
  EXPECT_THAT(cache->failure(), HasSubstr(cache->path().string()));
  EXPECT_EQ(count_in(*cache, 4), 0);
}

TEST_F(CacheTest, IsFilledByManyThreadsAtOnce) {
  const auto decoded = read_all(photos(), nullptr);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) EXPECT_EQ(read_all(photos(), open().cache), decoded);
    });
  }
}

TEST_F(CacheTest, BadSamplesAreNotKept) {
  folder_.write("photos/b/5.jpg", "no image");
  const auto [good, bad] = without_bad_samples(photos(), kFormat, 2, open().cache);
  EXPECT_EQ(good.size(), 4);
  ASSERT_EQ(bad.size(), 1u);
  EXPECT_THAT(bad[0].source, HasSubstr("5.jpg"));
  EXPECT_EQ(count_in(*open().cache, 5), 4);
}

}  // namespace
}  // namespace lockstep::data
