#include "lockstep/record/confusion_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/test_folder.h"

namespace lockstep::record {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ConfusionFile : public testing::Test {
 protected:
  std::string refusal_of(const std::string& text) const {
    folder_.write("confusion.csv", text);
    try {
      read_confusion(folder_.path());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
      return error.message();
    }
    return "";
  }
  const lockstep::test::TemporaryFolder folder_{};
};

TEST_F(ConfusionFile, IsATableWithNamesOnTopAndAtTheLeft) {
  EXPECT_EQ(confusion_text({{"cat", "dog"}, {{8, 2}, {1, 9}}}), "true class,cat,dog\ncat,8,2\ndog,1,9\n");
}

TEST_F(ConfusionFile, KeepsAnyNames) {
  const KeptConfusion kept{{"a,b", "say \"no\"", "two\nlines", "\r", "", " 梨 ", "\xFF<b>"},
                           ConfusionMatrix(7, std::vector<int64_t>{0, 1, 2, 3, 4, 5, 123'456'789'012})};
  folder_.write("confusion.csv", confusion_text(kept));
  const auto read = read_confusion(folder_.path());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->classes, kept.classes);
  EXPECT_EQ(read->counts, kept.counts);
}

TEST_F(ConfusionFile, MayBeMissing) { EXPECT_FALSE(read_confusion(folder_.path()).has_value()); }

TEST_F(ConfusionFile, ADamagedOneIsNamed) {
  EXPECT_THAT(refusal_of(""), AllOf(HasSubstr("confusion.csv\" is damaged"), HasSubstr("empty")));
  EXPECT_THAT(refusal_of("true class\n"), HasSubstr("0 classes"));
  EXPECT_THAT(refusal_of("true class,a,b\na,1,2\n"), HasSubstr("2 classes, and there are 1 rows"));
  EXPECT_THAT(refusal_of("true class,a,b\na,1,2\nb,1\n"), HasSubstr("row 3 is not that of class \"b\""));
  EXPECT_THAT(refusal_of("true class,a,b\nb,1,2\na,1,2\n"), HasSubstr("row 2 is not that of class \"a\""));
  EXPECT_THAT(refusal_of("true class,a\na,-1\n"), HasSubstr("\"-1\" is no number of samples"));
  EXPECT_THAT(refusal_of("true class,a\na,9223372036854775807\n"), HasSubstr("is no number of samples"));
  EXPECT_THAT(refusal_of("true class,\"a\na,1\n"), HasSubstr("quote without an end"));
  EXPECT_THAT(refusal_of(std::string(100'000, ',')), HasSubstr("more than 150 classes"));
}

}  // namespace
}  // namespace lockstep::record
