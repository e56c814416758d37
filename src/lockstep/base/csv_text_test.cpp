#include "lockstep/base/csv_text.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using Rows = std::vector<std::vector<std::string>>;

TEST(CsvText, ReadsBackAnyCells) {
  const Rows rows{
      {"", "a,b", "say \"no\"", "two\nlines"}, {"\r", "\r\n", "\"", "\"\""}, {" blanks ", ",", "=1+1", "梨"}};
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + csv_cell(row[i]);
    text += "\n";
  }
  EXPECT_EQ(csv_rows(text), rows);
  text.pop_back();
  EXPECT_EQ(csv_rows(text), rows) << "without an end of the last line";
}

TEST(CsvText, LinesEndAsOnWindows) {
  EXPECT_EQ(csv_rows("a,b\r\n\"c\",\r\n"), (Rows{{"a", "b"}, {"c", ""}}));
  EXPECT_EQ(csv_rows(""), Rows{});
}

TEST(CsvText, QuotesHaveAnEndAndNothingBehindIt) {
  for (const char* text : {"a,\"b", "\"", "\"\"\"", "\"a\"b,c\n", "a\rb"})
    EXPECT_THROW(csv_rows(text), Error) << text;
}

}  // namespace
}  // namespace lockstep
