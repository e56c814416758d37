#include "lockstep/data/listed_below.h"

#include <gtest/gtest.h>

#include "lockstep/data/test_folders.h"

namespace lockstep::data {
namespace {

using lockstep::test::TemporaryFolder;

TEST(ListedBelow, AFolderToBeMadeAmongImagesIs) {
  const TemporaryFolder folder;
  folder.write("cat/1.png", "");
  const std::string data = folder.path().string();
  EXPECT_TRUE(is_listed_below(folder.path() / "runs/x-001", data));
  EXPECT_TRUE(is_listed_below(folder.path() / "runs/x-001", data + "/./"));
  EXPECT_FALSE(is_listed_below(folder.path() / ".runs/x-001", data)) << "hidden names are not listed";
  EXPECT_FALSE(is_listed_below(folder.path() / "../runs/x-001", data));
  EXPECT_FALSE(is_listed_below(folder.path(), data));
  EXPECT_FALSE(is_listed_below(data + "-runs", data));
  EXPECT_FALSE(is_listed_below("runs/x-001", "s3://bucket/photos"));
  EXPECT_FALSE(is_listed_below("runs/x-001", ""));
}

TEST(ListedBelow, AFolderBesideOtherDataIsNot) {
  const TemporaryFolder mnist, sequences;
  mnist.write("train-images-idx3-ubyte.gz", "");
  mnist.write("samples/cat/1.png", "");
  EXPECT_FALSE(is_listed_below(mnist.path() / "runs/x-001", mnist.path().string()));
  sequences.write("walk/1.csv", "");
  EXPECT_FALSE(is_listed_below(sequences.path() / "runs/x-001", sequences.path().string()));
}

}  // namespace
}  // namespace lockstep::data
