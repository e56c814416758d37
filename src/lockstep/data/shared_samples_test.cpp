#include "lockstep/data/shared_samples.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "lockstep/data/sources.h"
#include "lockstep/data/test_folders.h"

namespace lockstep::data {
namespace {

using lockstep::test::TemporaryFolder;

TEST(SharedSamples, AreFoundByTheirPlaces) {
  const TemporaryFolder folder;
  for (const char* name :
       {"train/cat/1.png", "train/cat/2.png", "train/dog/1.png", "test/cat/1.png", "test/dog/1.png"})
    folder.write(name, "");
  std::filesystem::create_directory_symlink(folder.path() / "train", folder.path() / "link");
  const auto open = [&](const char* name) { return open_source(folder.path() / name).dataset; };
  const Dataset train = open("train"), test = open("test");
  EXPECT_EQ(shared_samples(train, train), 3);
  EXPECT_EQ(shared_samples(train, test), 0) << "the files have the same names";
  EXPECT_EQ(shared_samples(train, open("link")), 3);
  EXPECT_EQ(shared_samples(train, open(".")), 3) << "one is a part of the other";
  EXPECT_EQ(shared_samples(train.subset({0}), train), 1);
  EXPECT_EQ(shared_samples(train, {}), 0);
  EXPECT_TRUE(has_samples_at(train, folder.path() / "link/"));
  EXPECT_TRUE(has_samples_at(train, folder.path()));
  EXPECT_FALSE(has_samples_at(train, folder.path() / "tr"));
  EXPECT_FALSE(has_samples_at(test, folder.path() / "train"));
}

TEST(SharedSamples, AnArchiveHasTheNamesOfItsFolder) {
  const TemporaryFolder folder;
  for (const char* name : {"train/cat/1.png", "train/cat/2.png", "train/dog/1.png", "copies/all/cat/1.png",
                           "copies/all/cat/2.png", "copies/all/dog/1.png", "other/cat/1.png",
                           "other/cat/2.png", "other/dog/3.png"})
    folder.write(name, "");
  const auto open = [&](const char* name) { return open_source(folder.path() / name).dataset; };
  ASSERT_EQ(std::system(("tar -C " + folder.path().string() + " -cf " +
                         (folder.path() / "train.tar").string() + " train")
                            .c_str()),
            0);
  EXPECT_TRUE(have_same_names(open("train"), open("train.tar")));
  EXPECT_TRUE(have_same_names(open("train"), open("copies/all")));
  EXPECT_FALSE(have_same_names(open("train"), open("other")));
  EXPECT_FALSE(have_same_names(open("train"), open("train").subset({0, 1})));
}

}  // namespace
}  // namespace lockstep::data
