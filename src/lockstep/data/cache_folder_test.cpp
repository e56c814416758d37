#include "lockstep/data/cache_folder.h"

#include <atomic>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/test_folder.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kBytes = 100 * 1024;

class CacheFolderTest : public testing::Test {
 protected:
  // Of kBytes, used last so many seconds after 1970.
  std::filesystem::path add(const std::string& name, int64_t used) {
    folder_.write("caches/" + name, std::string(kBytes, 'x'));
    const std::filesystem::path path = caches_ / name;
    const std::array<timespec, 2> times{{{used, 0}, {used, 0}}};
    ::utimensat(AT_FDCWD, path.c_str(), times.data(), 0);
    return path;
  }
  static bool is_there(const std::filesystem::path& path) { return std::filesystem::exists(path); }

  const lockstep::test::TemporaryFolder folder_;
  const std::filesystem::path caches_ = folder_.path() / "caches";
};

TEST_F(CacheFolderTest, TheOneUsedLeastRecentlyGoesFirst) {
  const auto first = add("a.images", 2000), oldest = add("b.images", 1000), newest = add("c.images", 3000),
             other = add("notes.txt", 10);
  EXPECT_THAT(CacheFolder(caches_).make_room(kBytes, 4 * kBytes + 65536), IsEmpty());
  EXPECT_TRUE(is_there(oldest));
  EXPECT_THAT(CacheFolder(caches_).make_room(kBytes, 3 * kBytes + 65536), IsEmpty());
  EXPECT_FALSE(is_there(oldest));
  EXPECT_TRUE(is_there(first) && is_there(newest));
  EXPECT_THAT(CacheFolder(caches_).make_room(3 * kBytes, 3 * kBytes + 65536), IsEmpty());
  EXPECT_FALSE(is_there(first) || is_there(newest));
  EXPECT_TRUE(is_there(other)) << "files that are no caches are somebody's";
}

TEST_F(CacheFolderTest, WhatIsInUseStays) {
  const auto used = add("a.images", 1000), idle = add("b.images", 2000);
  const Descriptor user(::open(used.c_str(), O_RDONLY));
  mark_in_use(user.get());
  EXPECT_THAT(CacheFolder(caches_).make_room(kBytes, 2 * kBytes + 65536), IsEmpty());
  EXPECT_TRUE(is_there(used));
  EXPECT_FALSE(is_there(idle));
  const auto next = add("c.images", 3000);
  EXPECT_THAT(CacheFolder(caches_).make_room(2 * kBytes, 2 * kBytes + 65536), HasSubstr("in use"));
  EXPECT_TRUE(is_there(next)) << "where there is not enough room, nothing is removed for it";
}

TEST_F(CacheFolderTest, WhoOpensAFileThatIsJustLookedAtHasItInUseAllTheSame) {
  const auto path = add("a.images", 1000);
  std::atomic<bool> done = false;
  std::jthread looking([&] {
    const CacheFolder caches(caches_);
    while (!done) caches.make_room(1, int64_t{1} << 40);
  });
  int missed = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Descriptor user(::open(path.c_str(), O_RDONLY)), other(::open(path.c_str(), O_RDONLY));
    mark_in_use(user.get());
    missed += ::flock(other.get(), LOCK_EX | LOCK_NB) == 0;
  }
  done = true;
  EXPECT_EQ(missed, 0);
}

TEST_F(CacheFolderTest, MoreThanAllowedIsRefusedAndNothingGoes) {
  const auto there = add("a.images", 1000);
  EXPECT_THAT(CacheFolder(caches_).make_room(kBytes, kBytes - 1), HasSubstr("more than the"));
  EXPECT_THAT(CacheFolder(caches_).make_room(int64_t{1} << 60, int64_t{1} << 61),
              HasSubstr("a quarter of the disk's free space"));
  EXPECT_TRUE(is_there(there));
}

TEST_F(CacheFolderTest, WhatAKilledMakerLeftGoes) {
  const auto left = add("a.images.new-abc123", 1000), under_way = add("a.images.new-def456", 1000);
  const Descriptor maker(::open(under_way.c_str(), O_RDWR));
  mark_in_use(maker.get());
  EXPECT_THAT(CacheFolder(caches_).make_room(kBytes, 10 * kBytes), IsEmpty());
  EXPECT_FALSE(is_there(left));
  EXPECT_TRUE(is_there(under_way));
}

TEST_F(CacheFolderTest, LinksAndPipesAreNotFollowed) {
  std::filesystem::create_directories(caches_);
  folder_.write("precious", std::string(kBytes, 'x'));
  std::filesystem::create_symlink(folder_.path() / "precious", caches_ / "link.images");
  ::mkfifo((caches_ / "pipe.images").c_str(), 0600);
  EXPECT_THAT(CacheFolder(caches_).make_room(kBytes, kBytes), IsEmpty());
  EXPECT_TRUE(is_there(folder_.path() / "precious"));
}

TEST_F(CacheFolderTest, AFolderOfItsOwnIsForItsUserOnly) {
  EXPECT_THAT(CacheFolder(folder_.path() / "new" / "images").make_room(kBytes, 10 * kBytes), IsEmpty());
  EXPECT_EQ(std::filesystem::status(folder_.path() / "new" / "images").permissions(),
            std::filesystem::perms::owner_all);
  folder_.write("file", "");
  EXPECT_THROW(CacheFolder(folder_.path() / "file"), Error);
}

TEST_F(CacheFolderTest, DisksOfNetworksAndMemoryAreUnfit) {
  EXPECT_THAT(unfit_for_caches("/dev/shm/lockstep/images"), HasSubstr("is in memory"));
}

}  // namespace
}  // namespace lockstep::data
