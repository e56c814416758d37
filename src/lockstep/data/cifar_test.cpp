#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/sources.h"
#include "lockstep/data/test_folders.h"
#include "lockstep/data/test_images.h"
#include "lockstep/data/test_sources.h"

namespace lockstep::data {
namespace {

using lockstep::test::TemporaryFolder;
using test::open_failure;
using testing::HasSubstr;

std::string cifar(int64_t label_bytes, const std::vector<int>& labels) {
  std::string bytes;
  for (const int label : labels) {
    bytes += std::string(static_cast<size_t>(label_bytes - 1), '\x01') + static_cast<char>(label);
    for (const char channel : {'r', 'g', 'b'}) bytes += std::string(1024, channel);
  }
  return bytes;
}

TEST(Cifar, BothVariantsAreRead) {
  const TemporaryFolder ten, hundred;
  ten.write("data_batch_1.bin", cifar(1, {3, 9}));
  ten.write("data_batch_2.bin", cifar(1, {0}));
  ten.write("test_batch.bin", cifar(1, {5}));
  ten.write("batches.meta.txt", "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  const Source source = open_source(ten.path());
  const std::string test_file = ten.path().string() + "/test_batch.bin";
  EXPECT_EQ(source.kind, "CIFAR-10 binary, test_batch.bin is not used: --test " + test_file);
  EXPECT_EQ(source.dataset.size(), 3);
  EXPECT_EQ(source.dataset.classes()[static_cast<size_t>(source.dataset.store().label(0))], "cat");
  const Image image = source.dataset.store().read(2);
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(image.pixels[1024], 'g');
  EXPECT_EQ(source.dataset.store().source(1), ten.path().string() + "/data_batch_1.bin#1");
  EXPECT_EQ(source.dataset.store().source(2), ten.path().string() + "/data_batch_2.bin#0");
  EXPECT_EQ(open_source(ten.path() / "test_batch.bin", {.classes = source.dataset.classes()}).dataset.size(),
            1);
  const Source test_part = open_source(ten.path(), {.test_part = true});
  EXPECT_EQ(test_part.dataset.store().label(0), 5);
  EXPECT_EQ(test_part.file, test_file);
  EXPECT_EQ(test_part.dataset.store().source(0), test_file + "#0");

  hundred.write("train.bin", cifar(2, {99, 0}));
  const Source fine = open_source(hundred.path());
  EXPECT_EQ(fine.kind, "CIFAR-100 binary");
  EXPECT_EQ(fine.dataset.store().label(0), 99);
}

TEST(Cifar, IsFoundWhereItsArchiveUnpacks) {
  const TemporaryFolder folder;
  folder.write("cifar-10-batches-bin/data_batch_1.bin", cifar(1, {3, 9}));
  folder.write("cifar-10-batches-bin/test_batch.bin", cifar(1, {5}));
  folder.write("cifar-10-batches-bin/readme.html", "");
  const Source source = open_source(folder.path());
  EXPECT_THAT(source.kind, HasSubstr("CIFAR-10 binary, test_batch.bin is not used"));
  EXPECT_EQ(source.dataset.size(), 2);
  EXPECT_EQ(open_source(folder.path(), {.test_part = true}).dataset.size(), 1);
  folder.write("cat/1.png", test::bytes_of(test::kGrey8));
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("files that are not images"))
      << "of which kind are they?";
}

TEST(Cifar, TheVersionForPythonIsNamed) {
  const TemporaryFolder folder;
  for (const char* name : {"batches.meta", "data_batch_1", "test_batch"})
    folder.write("cifar-10-batches-py/" + std::string(name), "\x80\x02");
  for (const auto& path : {folder.path(), folder.path() / "cifar-10-batches-py"})
    EXPECT_THAT(open_failure(path),
                testing::AllOf(HasSubstr("/data_batch_1\" is of the Python version of CIFAR-10"),
                               HasSubstr("hint: lockstep data get cifar10")));
}

TEST(Cifar, BadFilesAreNamed) {
  const TemporaryFolder folder;
  folder.write("data_batch_1.bin", cifar(1, {3, 9}).substr(0, 5000));
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("ends at byte 5000, inside record 2"));
  folder.write("data_batch_1.bin", cifar(1, {3, 10}));
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("record 2 has label 10"));
  folder.write("data_batch_1.bin", "");
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("ends at byte 0"));
}

}  // namespace
}  // namespace lockstep::data
