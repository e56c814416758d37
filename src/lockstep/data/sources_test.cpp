#include "lockstep/data/sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/seed.h"
#include "lockstep/data/survey.h"
#include "lockstep/data/test_folders.h"
#include "lockstep/data/test_images.h"
#include "lockstep/data/test_sources.h"

namespace lockstep::data {
namespace {

using lockstep::test::TemporaryFolder;
using test::bytes_of;
using test::listed;
using test::open_failure;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kPng = bytes_of(test::kGrey8);

TEST(ImageFolder, TheDigitsAreThereInOrder) {
  const Source source = open_source(test::digits_folder());
  EXPECT_EQ(source.kind, "image folder");
  EXPECT_EQ(source.dataset.size(), 10000);
  EXPECT_THAT(source.dataset.classes(), ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"));
  for (int64_t i = 1; i < source.dataset.size(); ++i)
    ASSERT_LT(source.dataset.store().source(i - 1), source.dataset.store().source(i));
  EXPECT_EQ(source.dataset.store().label(3000), 3);
  const SizeSurvey survey = survey_sizes(source.dataset, 2);
  EXPECT_EQ(survey.typical, (ImageSize{1, 28, 28}));
  EXPECT_TRUE(survey.one_size);
  EXPECT_FALSE(survey.any_colour);
  EXPECT_FALSE(survey.looked_at_all);
  EXPECT_GE(survey.looked_at, 1000);
}

TEST(ImageFolder, TheDirectFolderIsTheLabelAndEqualNamesMerge) {
  const TemporaryFolder folder;
  for (const char* name : {"b/cat/2.png", "a/cat/1.PNG", "a/dog/3.jpeg", "b/cat/.hidden.png",
                           "b/cat/Thumbs.db", ".git/x.png", "__MACOSX/cat/1.png", "README", "notes.txt"}) {
    folder.write(name, kPng);
  }
  const Source merged = open_source(folder.path());
  EXPECT_THAT(listed(merged.dataset, folder.path()),
              ElementsAre("a/cat/1.PNG=cat", "b/cat/2.png=cat", "a/dog/3.jpeg=dog"));
  const Source top = open_source(folder.path().string() + "/", {.labels = Labels::top});
  EXPECT_THAT(listed(top.dataset, folder.path()),
              ElementsAre("a/cat/1.PNG=a", "a/dog/3.jpeg=a", "b/cat/2.png=b"));
  EXPECT_NE(merged.dataset.store().listing_hash(), top.dataset.store().listing_hash());
}

TEST(ImageFolder, PartsOfADatasetThatMergeAreNamed) {
  const TemporaryFolder folder;
  for (const char* name : {"train/cat/1.png", "train/dog/1.png", "Test/cat/1.png", "val/dog/2.png",
                           "desktop.ini", "val/dog/desktop.ini"})
    folder.write(name, kPng);
  const std::string root = folder.path().string();
  const Source merged = open_source(folder.path());
  EXPECT_EQ(merged.dataset.size(), 4);
  EXPECT_THAT(merged.warning,
              HasSubstr("Test, train, val of \"" + root +
                        "\" are used as one dataset; to use them separately: lockstep train " + root +
                        "/train --validation " + root + "/val --test " + root + "/Test"));
  EXPECT_EQ(open_source(folder.path() / "train").warning, "");
  EXPECT_EQ(open_source(folder.path(), {.labels = Labels::top}).warning, "");
}

std::string warning_of(const std::vector<std::string>& folders, const SourceOptions& options = {}) {
  const TemporaryFolder root;
  for (const std::string& folder : folders) root.write(folder + "/1.png", kPng);
  const std::string text = open_source(root.path(), options).warning;
  const size_t at = text.find("\"" + root.path().string() + "\"");
  return at == std::string::npos ? text : text.substr(0, at);
}

TEST(ImageFolder, PartsOfADatasetAreKnownByAWordOfTheirNamesAtAnyDepth) {
  for (const auto& [train, test] :
       {std::pair("training_set", "test_set"), std::pair("train_images", "test_images"),
        std::pair("seg_train", "seg_test"), std::pair("train", "dev"), std::pair("train", "eval"),
        std::pair("train1", "test1"), std::pair("train-set", "val-set"),
        std::pair("outer/train", "outer/val")}) {
    const std::string one = train, other = test;
    EXPECT_THAT(warning_of({one + "/cat", one + "/dog", other + "/cat", other + "/dog"}),
                AllOf(HasSubstr(one), HasSubstr(other)));
  }
  EXPECT_EQ(warning_of({"training_wheels/cat", "bike/dog"}), "") << "not all are such names";
}

TEST(ImageFolder, PartsThatBecomeClassesAreNamed) {
  const std::vector<std::string> split_in_classes{"0/train", "0/test", "1/train", "1/test"};
  EXPECT_THAT(warning_of(split_in_classes), HasSubstr("all labels of "));
  EXPECT_EQ(warning_of(split_in_classes, {.labels = Labels::top}), "");
  EXPECT_THAT(warning_of({"train_images", "test_images"}), HasSubstr("all labels of "));
  EXPECT_EQ(warning_of({"driving_test", "beach"}), "");
}

TEST(ImageFolder, ClassesOfOneNameInDifferentFoldersAreNamed) {
  EXPECT_THAT(warning_of({"A/x", "B/x", "B/y"}), HasSubstr("class \"x\" has the images of 2 folders"));
  EXPECT_EQ(warning_of({"A/x", "B/y"}), "");
}

TEST(ImageFolder, APartOfADatasetWithoutClassFoldersIsNoClass) {
  const TemporaryFolder mixed, loose;
  for (const char* name : {"train/cat/1.png", "train/dog/1.png", "test/1.png"}) mixed.write(name, kPng);
  for (const char* name : {"train/1.png", "test/1.png"}) loose.write(name, kPng);
  for (const TemporaryFolder* folder : {&mixed, &loose})
    EXPECT_THAT([&] { open_source(folder->path()); },
                ThrowsMessage<Error>(HasSubstr("/test\" has images and no class folders")));
  EXPECT_EQ(open_source(mixed.path(), {.unlabelled = true}).dataset.size(), 3);
}

TEST(ImageFolder, TheHashIsThatOfTheListingNotOfThePlace) {
  const TemporaryFolder here, there;
  for (const TemporaryFolder* folder : {&here, &there}) {
    folder->write("cat/1.png", kPng);
    folder->write("dog/1.png", kPng);
  }
  EXPECT_EQ(open_source(here.path()).dataset.store().listing_hash(),
            open_source(there.path()).dataset.store().listing_hash());
  there.write("dog/2.png", kPng);
  EXPECT_NE(open_source(here.path()).dataset.store().listing_hash(),
            open_source(there.path()).dataset.store().listing_hash());
}

TEST(ImageFolder, BadFoldersAreNamed) {
  const TemporaryFolder folder;
  EXPECT_THAT(open_failure(folder.path() / "none"), AllOf(HasSubstr("none"), HasSubstr("No such file")));
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("has no class folders"));
  folder.write("TrainVowels_TEST.ts", "@data\n");
  folder.write("Vowels_TRAIN.ts", "@data\n");
  EXPECT_THAT(open_failure(folder.path()),
              AllOf(HasSubstr("sequence files"), HasSubstr("hint: name one of the files: "),
                    HasSubstr("/Vowels_TRAIN.ts")));
  std::filesystem::remove(folder.path() / "TrainVowels_TEST.ts");
  std::filesystem::remove(folder.path() / "Vowels_TRAIN.ts");
  folder.write("1.png", kPng);
  EXPECT_THAT(open_failure(folder.path()),
              AllOf(HasSubstr("only images"), HasSubstr("hint: put the images of each class")));
  std::filesystem::remove(folder.path() / "1.png");
  folder.write("cat/1.png", kPng);
  EXPECT_THAT(open_failure(folder.path()), AllOf(HasSubstr("only one class"), HasSubstr("hint:")));
  folder.write("dog/1.png", kPng);
  EXPECT_EQ(open_failure(folder.path()), "");
  EXPECT_THAT(open_failure(folder.path() / "dog/1.png"), HasSubstr("does not contain data of a known kind"));
  std::filesystem::create_directory(folder.path() / "eel");
  EXPECT_THAT(open_failure(folder.path()), AllOf(HasSubstr("eel"), HasSubstr("contains no image files")));
  const Source skipping = open_source(folder.path(), {.on_bad_sample = OnBadSample::skip});
  ASSERT_EQ(skipping.skipped.size(), 1u);
  EXPECT_THAT(skipping.skipped[0].source, HasSubstr("eel"));
  EXPECT_THAT(skipping.dataset.classes(), ElementsAre("cat", "dog"));
  folder.write("\xff\xfe/1.png", kPng);
  EXPECT_THAT(open_failure(folder.path()),
              AllOf(HasSubstr("a name that is not UTF-8"), HasSubstr("hint: rename the folder")));
  EXPECT_EQ(open_source(folder.path(), {.classes = {"cat", "dog"}, .unlabelled = true}).dataset.size(), 3);
  std::filesystem::create_directory_symlink(folder.path(), folder.path() / "cat/loop");
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("a link to a folder that contains it"));
}

TEST(ImageFolder, StraysAreCountedAndTheFirstNamed) {
  const TemporaryFolder folder;
  for (const char* name : {"cat/1.png", "dog/1.png", "dog/a.txt", "dog/b.gif", "lost.png", "labels.csv"})
    folder.write(name, kPng);
  EXPECT_THAT(open_failure(folder.path()),
              AllOf(HasSubstr("3 files"), HasSubstr("dog/a.txt"), HasSubstr("--on-bad-sample skip")));
  const Source source = open_source(folder.path(), {.on_bad_sample = OnBadSample::skip});
  EXPECT_EQ(source.dataset.size(), 2);
  ASSERT_EQ(source.skipped.size(), 3u);
  EXPECT_THAT(source.skipped[2].reason, HasSubstr("outside the class folders"));
}

TEST(ImageFolder, LinksToNothingAndPipesAreStrays) {
  const TemporaryFolder folder;
  for (const char* name : {"cat/1.png", "dog/1.png"}) folder.write(name, kPng);
  std::filesystem::create_symlink("nowhere", folder.path() / "README");
  EXPECT_EQ(open_failure(folder.path()), "");
  std::filesystem::create_symlink("nowhere", folder.path() / "cat/2.png");
  ASSERT_EQ(::mkfifo((folder.path() / "dog/2.png").c_str(), 0600), 0);
  EXPECT_THAT(open_failure(folder.path()),
              AllOf(HasSubstr("2 files"), HasSubstr("cat/2.png"), HasSubstr("a broken link")));
  const Source source = open_source(folder.path(), {.on_bad_sample = OnBadSample::skip});
  EXPECT_EQ(source.dataset.size(), 2);
  EXPECT_EQ(source.skipped.size(), 2u);
}

TEST(ImageFolder, ClassesAreMatchedByName) {
  const TemporaryFolder folder;
  folder.write("dog/1.png", kPng);
  const Source source = open_source(folder.path(), {.classes = {"cat", "dog"}});
  EXPECT_EQ(source.dataset.store().label(0), 1);
  EXPECT_THAT(source.dataset.classes(), ElementsAre("cat", "dog"));
  folder.write("cst/1.png", kPng);
  EXPECT_THAT(open_failure(folder.path(), {.classes = {"cat", "dog"}}),
              AllOf(HasSubstr("\"cst\""), HasSubstr("did you mean \"cat\"?")));
  folder.write("0.png", kPng);
  const Source unlabelled = open_source(folder.path(), {.classes = {"cat", "dog"}, .unlabelled = true});
  EXPECT_THAT(listed(unlabelled.dataset, folder.path()),
              ElementsAre("0.png=-", "cst/1.png=-", "dog/1.png=dog"));
}

std::string idx_images(uint32_t count, uint32_t height, uint32_t width, const std::string& pixels) {
  std::string bytes("\x00\x00\x08\x03", 4);
  for (const uint32_t length : {count, height, width}) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(length >> shift));
  }
  return bytes + pixels;
}
std::string idx_labels(const std::string& labels) {
  return std::string("\x00\x00\x08\x01\x00\x00\x00", 7) + static_cast<char>(labels.size()) + labels;
}

TEST(Idx, MnistIsRead) {
  const std::filesystem::path folder = test::test_data("mnist/t10k-images-idx3-ubyte.gz").parent_path();
  test::test_data("mnist/train-labels-idx1-ubyte.gz");
  const Source train = open_source(folder);
  EXPECT_EQ(train.kind, "IDX, train-images-idx3-ubyte.gz; the others are not used: --test " +
                            folder.string() + "/t10k-images-idx3-ubyte.gz");
  EXPECT_EQ(train.dataset.size(), 60000);
  const Source test = open_source(folder / "t10k-images-idx3-ubyte.gz", {.classes = train.dataset.classes()});
  EXPECT_EQ(test.dataset.size(), 10000);
  const Source test_part = open_source(folder, {.test_part = true});
  EXPECT_EQ(test_part.dataset.size(), 10000);
  EXPECT_EQ(test_part.file, folder.string() + "/t10k-images-idx3-ubyte.gz");
  EXPECT_EQ(test.dataset.store().label(0), 7);
  EXPECT_EQ(train.dataset.store().label(0), 5);
  EXPECT_EQ(survey_sizes(train.dataset, 1).typical, (ImageSize{1, 28, 28}));
  // The digits' names are their places in MNIST's training set.
  const Dataset digits = open_source(test::digits_folder()).dataset;
  for (const int64_t i : {0, 1234, 9999}) {
    const int64_t place = std::stoll(std::filesystem::path(digits.store().source(i)).stem().string());
    EXPECT_EQ(digits.store().read(i).pixels, train.dataset.store().read(place).pixels);
  }
}

TEST(Idx, NamesWithAPointAndCopiesAreKnown) {
  const TemporaryFolder folder;
  for (const std::string part : {"train", "t10k"}) {
    folder.write("MNIST/" + part + "-images.idx3-ubyte", idx_images(3, 2, 2, "aaaabbbbcccc"));
    folder.write("MNIST/" + part + "-labels.idx1-ubyte", idx_labels({4, 4, 9}));
    folder.write("MNIST/" + part + "-images-idx3-ubyte/" + part + "-images-idx3-ubyte", "");
  }
  folder.write("MNIST/train-images.idx3-ubyte.gz", "");
  const std::string mnist = folder.path().string() + "/MNIST/";
  const Source train = open_source(mnist);
  EXPECT_EQ(train.dataset.size(), 3);
  EXPECT_EQ(train.kind, "IDX, train-images.idx3-ubyte; the others are not used: --test " + mnist +
                            "t10k-images.idx3-ubyte");
  EXPECT_EQ(open_source(mnist, {.test_part = true}).file, mnist + "t10k-images.idx3-ubyte");
}

TEST(Idx, TheTrainingPartIsKnownInTheMiddleOfAName) {
  const TemporaryFolder folder;
  for (const std::string part : {"emnist-letters-test", "emnist-letters-train"}) {
    folder.write(part + "-images-idx3-ubyte", idx_images(3, 2, 2, "aaaabbbbcccc"));
    folder.write(part + "-labels-idx1-ubyte", idx_labels({4, 4, 9}));
  }
  const std::string root = folder.path().string() + "/emnist-letters-";
  EXPECT_EQ(open_source(folder.path()).file, root + "train-images-idx3-ubyte");
  EXPECT_EQ(open_source(folder.path(), {.test_part = true}).file, root + "test-images-idx3-ubyte");
}

TEST(Idx, BadFilesAreNamed) {
  const TemporaryFolder folder;
  const std::string images = "x-images-idx3-ubyte", labels = "x-labels-idx1-ubyte";
  folder.write(images, idx_images(3, 2, 2, "aaaabbbbcccc"));
  EXPECT_THAT(open_failure(folder.path()), HasSubstr(labels));
  folder.write(labels, idx_labels({4, 4, 9}));
  const Source good = open_source(folder.path());
  EXPECT_THAT(good.dataset.classes(), ElementsAre("4", "9"));
  EXPECT_THAT(good.dataset.store().read(2).pixels, ElementsAre('c', 'c', 'c', 'c'));
  folder.write(labels, idx_labels({4, 9}));
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("2 labels, but there are 3 images"));
  folder.write(labels, idx_labels({4, 4, 4}));
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("only one class"));
  folder.write(images, idx_images(3, 2, 2, "aaaabbbbcc"));
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("12 bytes"));
  folder.write(images, idx_images(0xffffffff, 10000, 10000, "aaaa"));
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("more than the file can contain"));
  folder.write(images, idx_images(3, 2, 2, "aaaabbbbccccd"));
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("there are more"));
  folder.write(images, "hello");
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("inside their header"));
}

TEST(Idx, MoreThanTheMachineHoldsIsRefusedBeforeItIsTaken) {
  const TemporaryFolder folder;
  const auto file = folder.write("x-images-idx3-ubyte", idx_images(1 << 16, 8192, 8192, ""));
  folder.write("x-labels-idx1-ubyte", idx_labels({0, 1}));
  std::filesystem::resize_file(file, 16 + (std::uintmax_t{1} << 42));  // 4 TB that take no room on the disk
  EXPECT_THAT(open_failure(folder.path()),
              AllOf(HasSubstr("x-images-idx3-ubyte"), HasSubstr("of memory, but only")));
}

TEST(Idx, APipeIsNotWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "train-images-idx3-ubyte").c_str(), 0600), 0);
  EXPECT_THAT(open_failure(folder.path()),
              AllOf(HasSubstr("train-images-idx3-ubyte"), HasSubstr("not a file")));
}

TEST(Idx, DamagedFilesNeverCrash) {
  const TemporaryFolder folder;
  const std::string images = idx_images(3, 2, 2, "aaaabbbbcccc"), labels = idx_labels({0, 1, 1});
  Random random(5);
  for (int round = 0; round < 300; ++round) {
    std::string a = images, b = labels;
    a[random.below(16)] = static_cast<char>(random.next());
    b[random.below(b.size())] = static_cast<char>(random.next());
    if (random.below(3) == 0) a.resize(random.below(a.size()));
    folder.write("t10k-images-idx3-ubyte", a);
    folder.write("t10k-labels-idx1-ubyte", b);
    open_failure(folder.path());
  }
  const std::string whole = read_file(test::test_data("mnist/t10k-images-idx3-ubyte.gz"));
  folder.write("t10k-images-idx3-ubyte.gz", whole.substr(0, 100000));
  std::filesystem::remove(folder.path() / "t10k-images-idx3-ubyte");
  EXPECT_THAT(open_failure(folder.path()),
              AllOf(HasSubstr("t10k-images-idx3-ubyte.gz"), HasSubstr("hint: download the file again")));
}

}  // namespace
}  // namespace lockstep::data
