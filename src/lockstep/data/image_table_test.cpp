#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/internal/kinds.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/test_folders.h"
#include "lockstep/data/test_images.h"
#include "lockstep/data/test_sources.h"

namespace lockstep::data {
namespace {

using lockstep::test::TemporaryFolder;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// Images in the folders "a" and "b", of which those named 1 have another file of the name.
class ImageTable : public testing::Test {
 protected:
  ImageTable() {
    for (const char* name : {"a/1.png", "a/2.png", "b/1.png", "b/3.png"})
      folder_.write(name, test::bytes_of(test::kGrey8));
  }

  std::filesystem::path write(const std::string& text) {
    folder_.write("labels.csv", text);
    return folder_.path() / "labels.csv";
  }

  // "a/1.png=cat", with "-" for no class.
  std::vector<std::string> read(const std::string& text, const SourceOptions& options = {}) {
    return listed(open_source(write(text), options).dataset);
  }
  std::vector<std::string> listed(const Dataset& dataset) const {
    return test::listed(dataset, folder_.path());
  }

  std::string failure(const std::string& text, const SourceOptions& options = {}) {
    return test::open_failure(write(text), options);
  }

  TemporaryFolder folder_;
};

TEST_F(ImageTable, GivesTheClassesOfItsImages) {
  const Source source = open_source(write("file,label\nb/1.png,dog\na/1.png,cat\na/2.png,dog\n"));
  EXPECT_EQ(source.kind, "image table");
  EXPECT_THAT(listed(source.dataset), ElementsAre("a/1.png=cat", "a/2.png=dog", "b/1.png=dog"));
  EXPECT_EQ(source.dataset.store().read(0).pixels.size(), source.dataset.store().image_size(0).bytes());
}

TEST_F(ImageTable, IsTheDatasetOfItsFolders) {
  const Dataset table =
      open_source(write("file,label\nb/3.png,b\nb/1.png,b\na/2.png,a\na/1.png,a\n")).dataset;
  const Dataset folders = open_source(folder_.path()).dataset;
  EXPECT_EQ(listed(table), listed(folders));
  EXPECT_EQ(table.store().listing_hash(), folders.store().listing_hash());
}

TEST_F(ImageTable, IsReadAsOtherProgramsWriteIt) {
  const auto expected = ElementsAre("a/1.png=a \"big\", cat", "a/2.png=dog");
  EXPECT_THAT(read("\xef\xbb\xbfid,Label,file\r\n1,\"a \"\"big\"\", cat\",a/1.png\r\n2,dog,a/2.png\r\n"),
              expected);
  EXPECT_THAT(read("file;age;class\na\\1.png;3;\"a \"\"big\"\", cat\"\n./a/2.png;;dog\n\n"), expected);
  EXPECT_THAT(read("a/2.png\tdog\nb/1.png\tcat"), ElementsAre("b/1.png=cat", "a/2.png=dog"));
  EXPECT_THAT(read("file,label\na/1.png,5\" nail\na/2.png,\"3\"\" nail\"\n"),
              ElementsAre("a/2.png=3\" nail", "a/1.png=5\" nail"));
}

TEST_F(ImageTable, MayHaveWholePaths) {
  const std::string folder = folder_.path().string(), name = folder_.path().filename().string();
  const auto expected = ElementsAre("a/1.png=cat", "b/3.png=cat", "a/2.png=dog");
  EXPECT_THAT(read(folder + "/a/1.png,cat\nb/../a//2.png,dog\n../" + name + "/b/3.png,cat\n"), expected);
  EXPECT_THAT(read("id,label\n" + folder + "/a/1,cat\n2,dog\n" + folder + "/b/3,cat\n"), expected);
  EXPECT_THAT(failure("/nowhere/1.png,cat\na/2.png,dog\n"),
              HasSubstr(": \"/nowhere/1.png\": line 1 names it"));
}

TEST_F(ImageTable, MayHaveTheFileNamesAlone) {
  EXPECT_THAT(read("file,label\n2.png,dog\n3.png,cat\n"), ElementsAre("b/3.png=cat", "a/2.png=dog"));
  EXPECT_THAT(failure("file,label\n1.png,dog\n3.png,cat\n"),
              HasSubstr("/1.png\": line 2 names it, but several images have this name"));
}

// As in tables of Kaggle.
TEST_F(ImageTable, MayHaveNamesWithoutEndings) {
  const auto expected = ElementsAre("b/3.png=cat", "a/2.png=dog");
  EXPECT_THAT(read("id,label\n2,dog\n3,cat\n"), expected);
  EXPECT_THAT(read("breed,id\r\ndog,a/2\r\ncat,b\\3\r\n"), expected);
  EXPECT_THAT(read("2,dog\n3,cat\n"), expected) << "no line with names";
  EXPECT_THAT(read("id,label\n2,0\n3,1\n"), ElementsAre("a/2.png=0", "b/3.png=1"));
  EXPECT_THAT(read("id,level\n2,0\n3,1\n"), ElementsAre("a/2.png=0", "b/3.png=1"));
  EXPECT_THAT(read("level,image\n3,2\n2,3\n"), ElementsAre("b/3.png=2", "a/2.png=3"));
  EXPECT_THAT(read("id,label\n2,dog\n", {.classes = {"cat", "dog"}}), ElementsAre("a/2.png=dog"));
  EXPECT_THAT(failure("id,digit\n17,3\n2,1\n3,2\n"), HasSubstr("line 2 names it, but there is no such image"))
      << "the named column, also if its first image is missing";
  folder_.write("a/x-ray.v2.png", test::bytes_of(test::kGrey8));
  EXPECT_THAT(read("id,label\nx-ray.v2,dog\n3,cat\n"), ElementsAre("b/3.png=cat", "a/x-ray.v2.png=dog"));
}

// As in the tables of ISIC.
TEST_F(ImageTable, MayHaveAColumnForEachClass) {
  const auto expected = ElementsAre("a/1.png=cat", "a/2.png=dog", "b/3.png=dog");
  EXPECT_THAT(read("image,cat,dog,cow\na/1.png,1.0,0.0,0.0\na/2.png,0.0,1.0,0.0\n3.png,0,1,0\n"), expected);
  EXPECT_THAT(read("image,cat,dog,cow\na/1,1,0,0\n2,0,1,0\n3,0,1,0\n"), expected);
  EXPECT_THAT(failure("image,cat,dog,cow\na/1.png,1,0,0\na/2.png,1,1,0\n"),
              HasSubstr("line 3: the image is not of one class"));
  EXPECT_THAT(failure("image,cat,cat,dog\na/1.png,1,0,0\n"), HasSubstr("which column has the classes"));
  EXPECT_THAT(failure("image,cat,dog,age\na/1.png,1,0,7\n"), HasSubstr("which column has the classes"));
}

TEST_F(ImageTable, TheFolderOfNamesWithoutEndingsIsListedOnce) {
  Files files(write("id,label\n2,dog\n3,cat\n").string(), {}, source_kinds());
  ASSERT_TRUE(fits_image_table(files));
  folder_.write("b/2.png", test::bytes_of(test::kGrey8));
  EXPECT_EQ(open_image_table(std::move(files), {}).dataset.size(), 2);
}

TEST_F(ImageTable, AnImageMayBeNamedAsAColumn) {
  folder_.write("a/file.png", test::bytes_of(test::kGrey8));
  EXPECT_THAT(read("file,breed\n2.png,dog\n3.png,cat\n"), ElementsAre("b/3.png=cat", "a/2.png=dog"));
}

TEST_F(ImageTable, ANameWithoutEndingIsThatOfOneImage) {
  EXPECT_THAT(failure("id,label\n1,dog\n3,cat\n"),
              AllOf(HasSubstr("the name of 1 image that cannot be found"),
                    HasSubstr("/1\": line 2 names it, but several images have this name")));
  folder_.write("b/3.jpg", test::bytes_of(test::kJpegColour));
  EXPECT_THAT(failure("id,label\na/2,dog\nb/3,cat\n"),
              HasSubstr("/b/3\": line 3 names it, but several images have this name"));
  const std::string missing = "id,label\nx,dog\na/1,cat\na/2,dog\n";
  EXPECT_THAT(failure(missing), HasSubstr("/x\": line 2 names it, but there is no such image"));
  const Source source = open_source(write(missing), {.on_bad_sample = OnBadSample::skip});
  EXPECT_THAT(listed(source.dataset), ElementsAre("a/1.png=cat", "a/2.png=dog"));
}

TEST_F(ImageTable, MayHaveTabsOrBlanksBetweenItsValues) {
  const auto expected = ElementsAre("b/3.png=cat", "a/2.png=dog");
  EXPECT_THAT(listed(open_source(folder_.write("x.tsv", "file\tlabel\n2.png\tdog\n3.png\tcat\n")).dataset),
              expected);
  EXPECT_THAT(listed(open_source(folder_.write("x.TXT", "id\tlabel\n2\tdog\n3\tcat\n")).dataset), expected);
  EXPECT_THAT(read("note\tfile\tlabel\n\t2.png\tdog\nx\t3.png\tcat\n"), expected) << "an empty value";
  EXPECT_THAT(read("file\tlabel\tnote\n2.png\tdog\t\n3.png\tcat\t\n"), expected) << "at the end";
  EXPECT_THAT(read("file\tlabel\n2.png\tdog\t\n3.png\tcat\n"), expected) << "in some lines only";
  EXPECT_THAT(read("file\tbreed\t\n2.png\tdog\n3.png\tcat\t\n"), expected) << "without a name";
  EXPECT_THAT(read("file,label\t\t\n2.png,dog\n3.png,cat\n"), expected)
      << "tabs at the end are no separators";
  EXPECT_THAT(read("a/2.png dog\nb/3.png  cat \n"), expected) << "as in lists for Caffe";
  EXPECT_THAT(read("file label\na/2.png dog\nb/3.png cat\n"), expected);
  for (const char* name : {"my photo.png", "7.png (1).png", "b;c.png"}) {
    folder_.write(std::string("a/") + name, test::bytes_of(test::kGrey8));
    for (const char* first : {"file\n", "2.png\n"})
      EXPECT_THAT(read(std::string(first) + name + "\n", {.classes = {"cat"}, .unlabelled = true}),
                  Contains(std::string("a/") + name + "=-"));
  }
}

TEST_F(ImageTable, MayHaveSeparatorsInQuotes) {
  EXPECT_THAT(read("\"file, relative, to here\";\"label\"\n2.png;dog\n3.png;cat\n"),
              ElementsAre("b/3.png=cat", "a/2.png=dog"));
  EXPECT_THAT(read("2.png,\"a;b;\"\"c;d\"\"\"\n3.png,cat\n"),
              ElementsAre("a/2.png=a;b;\"c;d\"", "b/3.png=cat"));
  EXPECT_THAT(failure("file,label\n2.png,\"dog\nbig\"\n3.png,cat\n"),
              HasSubstr("line 2: the line has a quote (\") without a second one"));
  EXPECT_THAT(failure("2.png,dog\n3.png,\"cat\n"), HasSubstr("line 2: the line has a quote"));
}

// As old programs for Macs write it.
TEST_F(ImageTable, MayHaveLinesThatEndInCarriageReturns) {
  const auto expected = ElementsAre("b/3.png=cat", "a/2.png=dog");
  EXPECT_THAT(read("file,label\r2.png,dog\r3.png,cat\r"), expected);
  EXPECT_THAT(read("file,label\r\r\n2.png,dog\r\n\r3.png,cat"), expected);
  EXPECT_THAT(failure("file,label\r\r2.png,dog\r9.png,cat\r"), HasSubstr("line 4 names it"));
  EXPECT_THAT(failure(std::string("2.png,dog\n\0\0\0\n3.png,cat\n", 24)), HasSubstr("line 2"))
      << "zeros of a damaged file are no blank line";
}

TEST_F(ImageTable, OfItsFolderIsNamedInHints) {
  const std::filesystem::path& root = folder_.path();
  for (const char* name : {"k/train/6.png", "k/train/7.png", "k/train/8.png", "k/test/9.png",
                           "l/train_images/6.png", "l/train_images/7.png", "l/train_images/8.png",
                           "l/test_images/9.png", "m/images/6.png", "m/images/7.png", "m/images/8.png"})
    folder_.write(name, test::bytes_of(test::kGrey8));
  for (const char* name : {"k/", "l/", "m/"}) {
    folder_.write(name + std::string("a.csv"), "x,y\n1,2\n");
    folder_.write(name + std::string("labels.csv"), "id,breed\n7,dog\n8,cat\n6,dog\n");
    folder_.write(name + std::string("classes.txt"), "6\tcat\n7\tdog\n8\tcow\n9\tpig\n");
    folder_.write(name + std::string("README.txt"), "Pictures of 6 dogs\n7 8 9\n");
    folder_.write(name + std::string("sample_submission.csv"), "id,cat,dog\n9,0.5,0.5\n");
    const std::string hint =
        "name the table with the classes: " + (root / name / "labels.csv").string() + "; or ";
    const bool is_l = name[0] == 'l';
    EXPECT_THAT(
        is_l ? open_source(root / "l").warning : test::open_failure(root / (name[0] == 'k' ? "k" : "m")),
        HasSubstr(hint));
    EXPECT_EQ(open_source(root / name / "labels.csv").dataset.size(), 3) << "the hint works";
  }
  folder_.write("m/images/7.txt", "a caption");
  EXPECT_THAT(test::open_failure(root / "m"), HasSubstr("only one class")) << "not the caption";
  std::filesystem::remove(root / "m/images/7.txt");
  std::filesystem::remove(root / "m/labels.csv");
  EXPECT_THAT(test::open_failure(root / "m"), HasSubstr("hint: name the folder that contains one folder"));
}

// Numbers alone are a sequence, also beside images with numbers as names.
TEST_F(ImageTable, IsNoSequence) {
  EXPECT_THAT(failure("x,y\n1,2\n2,3\n"), HasSubstr("is one CSV file, which is one sequence"));
  EXPECT_EQ(open_source(write("1,2\n2,3\n"), {.classes = {"cat", "dog"}, .unlabelled = true}).kind,
            "sequence folder");
}

TEST_F(ImageTable, MayBeginWithItsSeparator) {
  for (const char* text : {"sep=;\r\nfile;label\r\na/1.png;cat\r\nb/1.png;dog\r\n",
                           "sep=\t\nfile\tlabel\na/1.png\tcat\nb/1.png\tdog\n"})
    EXPECT_THAT(read(text), ElementsAre("a/1.png=cat", "b/1.png=dog")) << text;
}

// As Windows' programs save "Unicode text".
TEST_F(ImageTable, MayBeInUtf16) {
  const std::string text = "file,label\r\na/2.png,dog\r\nb/3.png,caf\xe9\r\n";  // in Latin-1
  std::string little = "\xff\xfe", big = "\xfe\xff";
  for (const char c : text) {
    little += {c, '\0'};
    big += {'\0', c};
  }
  const auto expected = ElementsAre("b/3.png=caf\u00e9", "a/2.png=dog");
  EXPECT_THAT(read(little), expected);
  EXPECT_THAT(read(big), expected);
  EXPECT_THAT(read(little.substr(2)), expected) << "without a byte order mark";
  EXPECT_THAT(read(big.substr(2)), expected) << "without a byte order mark";
  EXPECT_THAT(read(little + "\n"), expected) << "half a character at the end is left out";
}

TEST_F(ImageTable, ALineMayComeTwiceButNotWithTwoClasses) {
  EXPECT_THAT(read("a/1.png,cat\na/2.png,dog\na/1.png,cat\n"), ElementsAre("a/1.png=cat", "a/2.png=dog"));
  EXPECT_THAT(failure("a/1.png,cat\na/2.png,dog\na/1.png,dog\n"),
              HasSubstr("line 3: \"a/1.png\" is of class \"dog\", but of class \"cat\" in line 1"));
}

TEST_F(ImageTable, MissingImagesAreNamedOrLeftOut) {
  const std::string text = "file,label\na/1.png,cat\n../x.png,dog\na/2.png,dog\nb/9.png,cat\n";
  EXPECT_THAT(failure(text),
              AllOf(HasSubstr("labels.csv\" contains the names of 2 images that cannot be found"),
                    HasSubstr("../x.png\": line 3 names it, but there is no such image"),
                    HasSubstr("--on-bad-sample skip")));
  const Source source = open_source(write(text), {.on_bad_sample = OnBadSample::skip});
  EXPECT_EQ(source.dataset.size(), 2);
  EXPECT_EQ(source.skipped.size(), 2U);
}

TEST_F(ImageTable, SaysWhatIsWrong) {
  EXPECT_THAT(failure("id,file,breed\n1,a/1.png,cat\n"),
              AllOf(HasSubstr("which column has the classes: there are \"id\", \"file\", \"breed\""),
                    HasSubstr("hint: name it \"label\"")));
  EXPECT_THAT(failure("1,a/1.png,cat\n"), HasSubstr("hint: write a first line with the columns' names"));
  EXPECT_THAT(failure("id,age,level\n2,40,0\n3,50,1\n"), HasSubstr("there are \"id\", \"age\", \"level\""));
  EXPECT_THAT(failure("file\na/1.png\n"), HasSubstr("but no classes"));
  EXPECT_THAT(failure("file,label\n\n"), HasSubstr("labels.csv\": the table has no images"));
  EXPECT_THAT(failure("# by hand\nfile,label\na/1.png,cat\n"),
              AllOf(HasSubstr("line 2: the line has 2 values, but earlier lines have 1"),
                    HasSubstr("hint: a table has a line for each image and no comments")));
  EXPECT_THAT(failure("file,label\na/1.png,cat,3\n"), HasSubstr("line 2: the line has 3 values"));
  EXPECT_THAT(failure("file,label\na/1.png,cat\na/2.png,dog,1\n"),
              HasSubstr("line 3: the line has 3 values"));
  EXPECT_THAT(failure("file,label\na/1.png,cat\na/2.png,\n"), HasSubstr("the class of \"a/2.png\" is empty"));
  EXPECT_THAT(failure("file,label\na/1.png,cat\na/2.png,cat\n"),
              AllOf(HasSubstr("only one class"), HasSubstr("the column with the classes")));
  EXPECT_THAT(failure("id,label\n7,cat\n8,dog\n"), HasSubstr("a table of images needs their file names"));
}

TEST_F(ImageTable, IsMatchedToTheClassesOfTheTrainingData) {
  EXPECT_THAT(read("a/1.png,dog\n", {.classes = {"cat", "dog"}}), ElementsAre("a/1.png=dog"));
  EXPECT_THAT(failure("a/1.png,cow\n", {.classes = {"cat", "dog"}}),
              HasSubstr("a class \"cow\" that is not among"));
  EXPECT_THAT(read("file\na/1.png\n", {.classes = {"cat", "dog"}, .unlabelled = true}),
              ElementsAre("a/1.png=-"));
}

TEST_F(ImageTable, MayBeInAnArchive) {
  write("file,label\na/1.png,cat\nb/3.png,dog\n");
  const std::filesystem::path archive = folder_.path() / "photos.tar";
  const std::string command =
      "tar cf '" + archive.string() + "' -C '" + folder_.path().string() + "' a b labels.csv";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const Source source = open_source(archive / "labels.csv");
  EXPECT_EQ(source.kind, "image table, tar archive");
  EXPECT_EQ(source.dataset.size(), 2);
}

}  // namespace
}  // namespace lockstep::data
