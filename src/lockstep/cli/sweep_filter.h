// Which trials of a sweep's table are shown.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::cli {

/// The column by which the table is sorted or filtered: "result" also for the name of the metric, which heads
/// that column. Throws invalid_option if there is none of this name.
std::string sweep_column(const sweep::Table& table, const std::string& name);

/// Words that must all fit: a text that is in the row, COLUMN=TEXT, or COLUMN and <, >, <=, >= with a number;
/// COLUMN!=TEXT fits the other rows. Quotes hold the words of a text together. A value.
class SweepFilter {
 public:
  /// Throws invalid_option for columns that the table does not have, for what no trial can fit because of a
  /// misspelling, and for a quote without an end.
  SweepFilter(const sweep::Table& table, const std::string& text);
  bool fits(const sweep::Row& row) const;

 private:
  struct Condition {
    std::string column{};  // empty: the whole row
    std::string sign{};
    std::string text{};
    bool is_exact = false;  // one of the column's choices, which are texts also where they look like numbers
  };
  /// sign: the place of the sign in the word; std::string::npos: there is none
  static Condition read_condition(const sweep::Table& table, const std::string& word, size_t sign);
  static bool fits(const sweep::Row& row, const Condition& condition);
  std::vector<Condition> conditions_;
};

}  // namespace lockstep::cli
