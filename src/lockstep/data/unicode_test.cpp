#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/internal/unicode.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/test_folders.h"
#include "lockstep/data/test_images.h"
#include "lockstep/data/test_sources.h"

namespace lockstep::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Decomposed, IsTheFormOfMacOs) {
  EXPECT_EQ(decomposed("cat"), "cat");
  EXPECT_EQ(decomposed("Caf\u00e9"), "Cafe\u0301");
  EXPECT_EQ(decomposed("Cafe\u0301"), "Cafe\u0301");
  EXPECT_EQ(decomposed("Vi\u1ec7t"), "Vie\u0323\u0302t") << "two accents";
  EXPECT_EQ(decomposed("Vi\u00ea\u0323t"), "Vie\u0323\u0302t") << "as Windows writes it";
  EXPECT_EQ(decomposed("\U0001D15E"), "\U0001D157\U0001D165") << "a note of music";
  EXPECT_EQ(decomposed("\ud55c\uae00"), "\u1112\u1161\u11ab\u1100\u1173\u11af");
  EXPECT_EQ(decomposed("\u30ac"), "\u30ab\u3099");
  EXPECT_EQ(decomposed("\u732b\U0001F408"), "\u732b\U0001F408");
  EXPECT_EQ(decomposed("\ufa19"), "\ufa19") << "a variant of U+795E";
  EXPECT_EQ(decomposed("caf\xe9\u00e9"), "caf\xe9\u00e9") << "what is not UTF-8 stays";
  EXPECT_EQ(decomposed(std::string_view("a\0\u00e9", 4)), std::string_view("a\0e\u0301", 5));
}

// A training set packed on a Mac, and test images named on Linux.
TEST(ClassNames, AreTheSameInBothForms) {
  const lockstep::test::TemporaryFolder folder;
  for (const char* name : {"train/Cafe\u0301/1.png", "train/Bar/1.png", "test/Caf\u00e9/1.png"})
    folder.write(name, test::bytes_of(test::kGrey8));
  const Dataset train = open_source(folder.path() / "train").dataset;
  EXPECT_THAT(train.classes(), ElementsAre("Bar", "Cafe\u0301"));
  const Dataset tested = open_source(folder.path() / "test", {.classes = train.classes()}).dataset;
  EXPECT_EQ(tested.classes(), train.classes());
  EXPECT_EQ(tested.store().label(0), 1);
  EXPECT_THAT(test::open_failure(folder.path()),
              AllOf(HasSubstr("has two classes that are both shown as \"Caf"), HasSubstr("hint: ")));
}

}  // namespace
}  // namespace lockstep::data
