#include "lockstep/data/image_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/test_folders.h"
#include "lockstep/data/test_reads.h"

namespace lockstep::data {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 30;
constexpr ImageFormat kSmall{1, 8, 8};

Dataset digits() { return open_source(test::digits_folder()).dataset; }

TEST(ImageShare, EqualFoldersAndFormatsHaveOneSetWhileSomebodyUsesIt) {
  ImageShare share;
  auto first = share.open(digits(), kSmall, kPlenty);
  auto second = share.open(digits(), kSmall, kPlenty);  // listed anew, in the same folder
  EXPECT_EQ(first, second);
  EXPECT_NE(share.open(digits(), {1, 9, 9}, kPlenty), first);
  EXPECT_NE(share.open(digits().subset({1, 2}), kSmall, kPlenty),
            share.open(digits().subset({2, 1}), kSmall, kPlenty));
  EXPECT_EQ(share.open(digits().subset({1, 2}), kSmall, kPlenty)->size(), 2);
  EXPECT_EQ(share.kept_bytes(), 10000 * 64);
  first = nullptr;
  EXPECT_EQ(share.kept_bytes(), 10000 * 64);
  second = nullptr;
  EXPECT_EQ(share.kept_bytes(), 0);
}

TEST(ImageShare, AnArchiveIsOpenedOnceUntilItChanges) {
  const lockstep::test::TemporaryFolder folder;
  const std::filesystem::path archive = folder.path() / "digits.tar";
  const auto pack = [&](const std::string& classes) {
    const std::string command =
        "tar -C " + test::digits_folder().string() + " -cf " + archive.string() + " " + classes;
    ASSERT_EQ(std::system(command.c_str()), 0);
  };
  pack("0 1");
  ImageShare share;
  const Dataset first = share.open_source(archive, {}).dataset;
  EXPECT_EQ(first.size(), 2000);
  EXPECT_EQ(&share.open_source(archive, {}).dataset.store(), &first.store());
  EXPECT_EQ(&share.without_sets()->open_source(archive, {}).dataset.store(), &first.store());
  EXPECT_NE(&share.open_source(archive, {.labels = Labels::top}).dataset.store(), &first.store());
  pack("0 1 2");
  EXPECT_EQ(share.open_source(archive, {}).dataset.size(), 3000);
  std::filesystem::remove(archive);
  EXPECT_THROW((void)share.open_source(archive, {}), Error);
}

TEST(ImageShare, SetsThatWouldBeSharedHaveOneKey) {
  ImageShare share;
  const auto first = share.open(digits(), kSmall, kPlenty);
  const auto read_once = share.open(digits(), {1, 7, 7}, 0);
  const auto sets = share.kept_sets();
  ASSERT_EQ(sets.size(), 1u);
  EXPECT_EQ(sets[0].bytes, 10000 * 64);
  EXPECT_FALSE(sets[0].key.empty());
  const auto other = share.without_sets();
  EXPECT_TRUE(other->kept_sets().empty());
  const auto again = other->open(digits(), kSmall, kPlenty),
             larger = other->open(digits(), {1, 9, 9}, kPlenty),
             part = other->open(digits().subset({1, 2}), kSmall, kPlenty);
  EXPECT_NE(again, first);
  const auto others = other->kept_sets();
  ASSERT_EQ(others.size(), 3u);
  EXPECT_EQ(others[0].key, sets[0].key);
  EXPECT_EQ(others[1].bytes, 10000 * 81);
  for (const size_t i : {1, 2}) EXPECT_NE(others[i].key, sets[0].key);
}

TEST(ImageShare, AllSetsTogetherKeepNoMoreThanAllowed) {
  ImageShare share;
  const int64_t room = 10000 * 64 + 100;
  const auto first = share.open(digits(), kSmall, room);
  EXPECT_TRUE(first->kept());
  EXPECT_TRUE(share.open(digits(), kSmall, room)->kept()) << "counted once";
  EXPECT_FALSE(share.open(digits(), {1, 9, 9}, room)->kept());
  EXPECT_FALSE(share.open(digits().subset({1, 2}), kSmall, room)->kept());
}

TEST(ImageShare, OneThatKeepsNoneIsNotForWhoHasTheRoom) {
  ImageShare share;
  EXPECT_TRUE(share.keeps(digits(), kSmall, kPlenty));
  const auto read_once = share.open(digits(), kSmall, 0);
  EXPECT_FALSE(read_once->kept());
  EXPECT_EQ(share.open(digits(), kSmall, 0), read_once);
  EXPECT_TRUE(share.keeps(digits(), kSmall, kPlenty));
  const auto kept = share.open(digits(), kSmall, kPlenty);
  EXPECT_TRUE(kept->kept());
  EXPECT_EQ(share.open(digits(), kSmall, 0), kept) << "what is there is better than asked for";
  EXPECT_TRUE(share.keeps(digits(), kSmall, 0));
  EXPECT_FALSE(share.keeps(digits(), {1, 9, 9}, kept->kept_bytes() + 1000)) << "the others in use count";
}

TEST(ImageShare, OneWithoutACacheIsNotForWhoHasOne) {
  const lockstep::test::TemporaryFolder folder;
  ImageShare share;
  const auto decodes = share.open(digits(), kSmall, 0);
  const auto cache = open_image_cache(folder.path(), digits().store(), kSmall, CacheUse::make, kPlenty).cache;
  ASSERT_NE(cache, nullptr);
  const auto cached = share.open(digits(), kSmall, 0, cache);
  EXPECT_EQ(cached->cache(), cache.get());
}

TEST(ImageShare, PartsReadWhatTheWholeKeeps) {
  ImageShare share;
  const Dataset whole = digits();
  const auto images = share.open(whole, kSmall, kPlenty);
  const auto [train, held_out] = digits().split(0.9, {.seed = 4});
  const ImageSet part(held_out, images), plain(held_out, kSmall, 0);
  EXPECT_EQ(part.size(), held_out.size());
  EXPECT_TRUE(part.kept());
  EXPECT_EQ(part.kept_bytes(), 0);
  for (int64_t i = 0; i < part.size(); i += 37) {
    EXPECT_EQ(test::read(part, i), test::read(plain, i));
    EXPECT_EQ(part.label(i), plain.label(i));
  }
  EXPECT_THROW(ImageSet(whole.subset({1, 2}).subset({1}), images), Error);
}

TEST(BadImage, LargeNumbersAreGrouped) {
  EXPECT_EQ(BadImage("a.png", "it is damaged", BadImage::Position{901, 1801}).message(),
            "cannot decode \"a.png\" (sample 901 of 1,801): it is damaged");
}

TEST(ImageShare, ABadImageHasItsNumberInThePart) {
  const lockstep::test::TemporaryFolder folder;
  for (const char* name : {"a/1.png", "a/2.png", "b/3.png", "b/4.png"}) folder.write(name, "no image");
  const Dataset whole = open_source(folder.path()).dataset;
  ImageShare share;
  const ImageSet part(whole.subset({2, 3}), share.open(whole, kSmall, kPlenty));
  try {
    test::read(part, 1);
    FAIL() << "a text was read as an image";
  } catch (const BadImage& error) {
    EXPECT_THAT(error.message(), testing::HasSubstr("4.png\" (sample 2 of 2)"));
  }
}

}  // namespace
}  // namespace lockstep::data
