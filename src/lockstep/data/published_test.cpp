// Published datasets without a network: what is there is used, and what cannot be downloaded is an error.
#include "lockstep/data/published_datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/test_folder.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;

// `count` images of CIFAR-10, of classes 0, 1, 2 and so on.
std::string cifar_records(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.append(1, static_cast<char>(i % 10));
    bytes.append(size_t{3} * 32 * 32, static_cast<char>(i));
  }
  return bytes;
}

TEST(PublishedData, ACompleteFolderIsOpened) {
  const lockstep::test::TemporaryFolder folder;
  folder.write("batches.meta.txt", "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n");
  for (const char* name : {"1", "2", "3", "4", "5"})
    folder.write("data_batch_" + std::string(name) + ".bin", cifar_records(20));
  folder.write("test_batch.bin", cifar_records(10));
  const TrainingAndTest both = cifar10({.folder = folder.path()});
  EXPECT_EQ(both.training.size(), 100);
  EXPECT_EQ(both.test.size(), 10);
  EXPECT_EQ(both.training.classes()[9], "truck");
  EXPECT_EQ(both.test.classes(), both.training.classes());
}

TEST(PublishedData, NamesAndServersThatAreNotThereAreErrors) {
  const lockstep::test::TemporaryFolder folder;
  EXPECT_THROW(find_published_data("minst"), Error);
  try {
    mnist({.folder = folder.path() / "mnist", .mirror = "http://no.such.host.invalid"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::communication);
    EXPECT_THAT(error.message(),
                HasSubstr("cannot download \"http://no.such.host.invalid/train-images-idx3-ubyte.gz\""));
  }
}

TEST(PublishedData, EachHasFilesWithWholeHashes) {
  for (const PublishedData& data : published_data()) {
    for (const PublishedDataFile& file : data.files) {
      EXPECT_EQ(std::string(file.sha256).size(), 64U) << file.name;
      EXPECT_GT(file.bytes, 0) << file.name;
    }
    EXPECT_EQ(data.test_file("folder").parent_path(), "folder");
  }
}

}  // namespace
}  // namespace lockstep::data
