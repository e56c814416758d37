#include "lockstep/data/internal/strays.h"

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

TEST(Strays, AJpegByAnotherNameIsToBeRenamed) {
  const TemporaryFolder folder;
  for (const char* name : {"cat/1.jpg", "dog/1.jpg", "dog/2.jpg_large"})
    folder.write(name, test::bytes_of(test::kJpegGrey));
  EXPECT_THAT(open_failure(folder.path()), AllOf(HasSubstr("dog/2.jpg_large\": it is a JPEG"),
                                                 HasSubstr("does not end in .jpg; rename it")));
}

TEST(Strays, WhatPredictionSkipsIsLookedInto) {
  const TemporaryFolder folder;
  for (const char* name : {"cat/1.jpg", "cat/2.jpg_large"})
    folder.write(name, test::bytes_of(test::kJpegGrey));
  const Source source = open_source(folder.path(), {.classes = {"cat", "dog"}, .unlabelled = true});
  ASSERT_EQ(source.skipped.size(), 1u);
  EXPECT_THAT(source.skipped[0].reason, HasSubstr("it is a JPEG"));
}

TEST(Strays, RareEndingsOfImagesAreImages) {
  const TemporaryFolder folder;
  for (const char* name : {"cat/1.JPE", "cat/2.jpe", "dog/1.jfif", "dog/2.JFIF", "dog/3.dib", "dog/4.JPEG"})
    folder.write(name, test::bytes_of(test::kJpegGrey));
  EXPECT_EQ(open_source(folder.path()).dataset.size(), 6);
}

TEST(Strays, OfFormatsThatAreNotReadAreNamed) {
  const TemporaryFolder folder;
  folder.write("cat/1.gif", "GIF89a..........");
  folder.write("dog/1.gif", "GIF89a..........");
  EXPECT_THAT(open_failure(folder.path()),
              AllOf(HasSubstr("cat/1.gif\": it is not a PNG, JPEG, BMP, PPM, TIFF or WebP file, but a GIF"),
                    HasSubstr("hint: names of images end in .png,")))
      << "to remove all files would leave nothing";
  folder.write("dog/1.png", test::bytes_of(test::kGrey8));
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("hint: remove them, or add"));
}

TEST(Strays, WhatSystemsLeaveInFoldersIsNone) {
  const TemporaryFolder folder;
  for (const char* name : {"cat/1.png", "dog/1.png", "dog/thumbs.db", "dog/ehthumbs.db", "dog/Icon\r",
                           "Desktop.ini", "dog/@eaDir/1.png/SYNOPHOTO_THUMB_M.png", "__MACOSX/cat/1.png",
                           "$RECYCLE.BIN/S-1/1.png", "System Volume Information/1.png", "lost+found/1.png"})
    folder.write(name, test::bytes_of(test::kGrey8));
  const Source source = open_source(folder.path());
  EXPECT_THAT(source.dataset.classes(), testing::ElementsAre("cat", "dog"));
  EXPECT_EQ(source.dataset.size(), 2);
}

TEST(Strays, AnImageAmongSequencesIsTheOneToRemove) {
  const TemporaryFolder folder;
  for (const char* name : {"run/1.csv", "run/2.csv", "walk/1.csv"}) folder.write(name, "1,2\n");
  folder.write("walk/plot.png", test::bytes_of(test::kGrey8));
  EXPECT_THAT(
      open_failure(folder.path()),
      AllOf(HasSubstr("if the data are the 3 CSV files, one sequence each, remove the one image: " +
                      folder.path().string() + "/walk/plot.png; if they are the images, remove them")));
  for (const char* name : {"walk/2.png", "walk/3.png", "run/1.png"})
    folder.write(name, test::bytes_of(test::kGrey8));
  EXPECT_THAT(open_failure(folder.path()), HasSubstr("hint: remove them, or add")) << "there are more images";
}

TEST(Strays, AnImageAboveSequencesIsTheOneToRemove) {
  const TemporaryFolder folder;
  for (const char* name : {"run/1.csv", "walk/1.csv"}) folder.write(name, "1,2\n");
  folder.write("plot.png", test::bytes_of(test::kGrey8));
  EXPECT_THAT(open_failure(folder.path()),
              HasSubstr("if the data are the 2 CSV files, one sequence each, remove the one image: "));
}

}  // namespace
}  // namespace lockstep::data
