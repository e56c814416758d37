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
  for (const char* name : {"cat/1.jpg", "dog/1.jpg", "dog/2.jfif"})
    folder.write(name, test::bytes_of(test::kJpegGrey));
  EXPECT_THAT(open_failure(folder.path()), AllOf(HasSubstr("dog/2.jfif\": it is a JPEG"),
                                                 HasSubstr("does not end in .jpg or .jpeg; rename it")));
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

}  // namespace
}  // namespace lockstep::data
