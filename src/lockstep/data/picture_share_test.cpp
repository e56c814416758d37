#include "lockstep/data/picture_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/sources.h"
#include "lockstep/data/test_folders.h"

namespace lockstep::data {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 30;
constexpr PictureFormat kSmall{1, 8, 8};

Dataset digits() { return open_source(test::digits_folder()).dataset; }

std::vector<uint8_t> read(const PictureSet& pictures, int64_t index) {
  std::vector<uint8_t> picture(static_cast<size_t>(pictures.picture_bytes()));
  pictures.read(index, picture);
  return picture;
}

TEST(PictureShare, EqualFoldersAndFormatsHaveOneSetWhileSomebodyUsesIt) {
  PictureShare share;
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

TEST(PictureShare, AllSetsTogetherKeepNoMoreThanAllowed) {
  PictureShare share;
  const int64_t room = 10000 * 64 + 100;
  const auto first = share.open(digits(), kSmall, room);
  EXPECT_TRUE(first->kept());
  EXPECT_TRUE(share.open(digits(), kSmall, room)->kept()) << "counted once";
  EXPECT_FALSE(share.open(digits(), {1, 9, 9}, room)->kept());
  EXPECT_FALSE(share.open(digits().subset({1, 2}), kSmall, room)->kept());
}

TEST(PictureShare, OneThatKeepsNoneIsNotForWhoHasTheRoom) {
  PictureShare share;
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

TEST(PictureShare, OneWithoutACacheIsNotForWhoHasOne) {
  const test::TemporaryFolder folder;
  PictureShare share;
  const auto decodes = share.open(digits(), kSmall, 0);
  const auto cache =
      open_picture_cache(folder.path(), digits().store(), kSmall, CacheUse::make, kPlenty).cache;
  ASSERT_NE(cache, nullptr);
  const auto cached = share.open(digits(), kSmall, 0, cache);
  EXPECT_EQ(cached->cache(), cache.get());
}

TEST(PictureShare, PartsReadWhatTheWholeKeeps) {
  PictureShare share;
  const Dataset whole = digits();
  const auto pictures = share.open(whole, kSmall, kPlenty);
  const auto [train, held_out] = digits().split(0.9, {.seed = 4});
  const PictureSet part(held_out, pictures), plain(held_out, kSmall, 0);
  EXPECT_EQ(part.size(), held_out.size());
  EXPECT_TRUE(part.kept());
  EXPECT_EQ(part.kept_bytes(), 0);
  for (int64_t i = 0; i < part.size(); i += 37) {
    EXPECT_EQ(read(part, i), read(plain, i));
    EXPECT_EQ(part.label(i), plain.label(i));
  }
  EXPECT_THROW(PictureSet(whole.subset({1, 2}).subset({1}), pictures), Error);
}

TEST(PictureShare, ABadPictureHasItsNumberInThePart) {
  const test::TemporaryFolder folder;
  for (const char* name : {"a/1.png", "a/2.png", "b/3.png", "b/4.png"}) folder.write(name, "no picture");
  const Dataset whole = open_source(folder.path()).dataset;
  PictureShare share;
  const PictureSet part(whole.subset({2, 3}), share.open(whole, kSmall, kPlenty));
  try {
    read(part, 1);
    FAIL() << "a text was read as a picture";
  } catch (const BadPicture& error) {
    EXPECT_THAT(error.message(), testing::HasSubstr("4.png\" (sample 2 of 2)"));
  }
}

}  // namespace
}  // namespace lockstep::data
