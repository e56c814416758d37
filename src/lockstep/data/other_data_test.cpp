#include <string>

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
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kCoco =
    R"({"info": {"year": 2017}, "licenses": [], "images": [{"license": 4, "file_name": "1.png", "id": 1}],
        "annotations": [{"image_id": 1, "category_id": 18}]})";

TEST(OtherData, OfWekaIsNamedWithTheWayToSequences) {
  const TemporaryFolder folder;
  const auto file = folder.write("in/Coffee_TRAIN.arff", "@relation coffee\n@data\n1,2,0\n");
  const auto said = AllOf(HasSubstr("Coffee_TRAIN.arff\" is in Weka's format, which is not supported"),
                          HasSubstr("hint: write a .ts file: a line @classLabel true with"));
  EXPECT_THAT(open_failure(file), said);
  EXPECT_THAT(open_failure(folder.path() / "in"), said);
  folder.write("in/Coffee_TRAIN.ts", "@classLabel true 0 1\n@data\n1,2:0\n");
  EXPECT_THAT(open_failure(folder.path() / "in"), HasSubstr("hint: name one of the files: "));
}

TEST(OtherData, OfTheUcrArchiveIsNamed) {
  const TemporaryFolder folder;
  const auto said = AllOf(HasSubstr("\" is a table of numbers, which is not supported by this name"),
                          HasSubstr("as in the UCR archive, write a .ts file: "));
  EXPECT_THAT(open_failure(folder.write("in/Coffee_TRAIN.tsv", "1\t-0.5\t1.5e-1\tNaN\n0\t1\t2\t3\n")), said);
  EXPECT_THAT(open_failure(folder.write("in/Coffee_TEST.txt", "  1.0000000e+00  -5.1840e-01\n")), said);
  EXPECT_THAT(open_failure(folder.write("old.txt", "1,2.5,3.5\n2,3.5,1\n")), said);
  EXPECT_THAT(open_failure(folder.path() / "in"), said);
  for (const char* text : {"to be or not to be\n", "\"\"\n"})
    EXPECT_THAT(open_failure(folder.write("words.txt", text)),
                HasSubstr("does not contain data of a known kind"))
        << text;
}

TEST(OtherData, WithTimeStepsNeedsOnlyWhatIsNotThere) {
  const TemporaryFolder folder;
  const auto said = [&](const char* name, const char* text) {
    return open_failure(folder.write(name, text));
  };
  EXPECT_THAT(said("1.txt", "1\t2\n"),
              HasSubstr("if a line is a time step, name it .csv and move it into a"));
  EXPECT_THAT(said("2.txt", "1 2\n"),
              HasSubstr("step, write commas between its values, name it .csv and move"));
  for (const char* name : {"in/run/1.txt", "in/walk/1.txt"}) folder.write(name, "1 2\n");
  EXPECT_THAT(
      open_failure(folder.path() / "in"),
      AllOf(HasSubstr("step, write commas between its values and name it .csv"), Not(HasSubstr("move"))));
}

TEST(OtherData, OfCocoIsNamedWithTheWayToATable) {
  const TemporaryFolder folder;
  const auto said =
      AllOf(HasSubstr("instances_train2017.json\" has annotations in COCO's format, which are not supported"),
            HasSubstr("write a table (.csv) beside the images, with a line file,label"));
  const auto file = folder.write("coco/annotations/instances_train2017.json", kCoco);
  EXPECT_THAT(open_failure(file), said);
  for (const char* name : {"coco/train2017/1.png", "coco/val2017/2.png"})
    folder.write(name, test::bytes_of(test::kGrey8));
  EXPECT_THAT(open_failure(folder.path() / "coco"), said);
  folder.write("flat/instances_train2017.json", kCoco);
  folder.write("flat/1.png", test::bytes_of(test::kGrey8));
  EXPECT_THAT(open_failure(folder.path() / "flat"), said);
  EXPECT_THAT(open_failure(folder.write("options.json", R"({"max-epochs": 5})")), Not(HasSubstr("COCO")));
}

TEST(OtherData, AmongImagesIsOnlyWhatAnnotatesThem) {
  const TemporaryFolder folder;
  for (const char* name : {"cat/1.png", "dog/1.png"}) folder.write(name, test::bytes_of(test::kGrey8));
  folder.write("instances.json", kCoco);
  EXPECT_EQ(open_source(folder.path()).dataset.size(), 2) << "the class folders have the classes";
  folder.write("cat/1.txt", "0 0.5 0.5 0.1 0.1\n");
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("contains 1 file that is not an image of a class"));
  folder.write("flat/1.png", test::bytes_of(test::kGrey8));
  folder.write("flat/labels/1.txt", "0 0.5 0.5 0.1 0.1\n");
  EXPECT_THAT(open_failure(folder.path() / "flat"),
              HasSubstr("flat/1.png\": it is outside the class folders"));
}

TEST(OtherData, BesideImagesThatAreNotReadIsNone) {
  const TemporaryFolder folder;
  for (const std::string name : {"cat/1", "dog/1"}) {
    folder.write(name + ".heic", "....ftypheic....");
    folder.write(name + ".txt", "0 0.5 0.5 0.1 0.1\n");
  }
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("TIFF or WebP file, but a HEIC or a video"));
}

TEST(OtherData, AnEmptyFileIsCalledEmpty) {
  const TemporaryFolder folder;
  EXPECT_THAT(open_failure(folder.write("x.tsv", "")), HasSubstr("/x.tsv\" is empty"));
  EXPECT_THAT(open_failure(folder.write("x.dat", "")), HasSubstr("/x.dat\" is empty"));
}

}  // namespace
}  // namespace lockstep::data
