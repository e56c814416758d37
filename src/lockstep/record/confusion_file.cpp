#include "lockstep/record/confusion_file.h"

#include <algorithm>

#include "lockstep/base/csv_text.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::record {
namespace {

constexpr const char* kCorner = "true class";
constexpr int64_t kMostConfusionBytes = int64_t{1} << 20;
constexpr int64_t kMostInCell = 1'000'000'000'000;  // all that fit into the file have an int64 as their sum

std::vector<int64_t> counts_in(const std::vector<std::string>& row) {
  std::vector<int64_t> counts;
  for (size_t i = 1; i < row.size(); ++i) {
    const auto count = parse_number<int64_t>(row[i]);
    if (!count || *count < 0 || *count > kMostInCell)
      throw Error(ErrorCode::corrupt_data, quote(row[i]) + " is no number of samples");
    counts.push_back(*count);
  }
  return counts;
}

KeptConfusion confusion_of(const std::string& text) {
  const auto rows = csv_rows(text);
  if (rows.empty()) throw Error(ErrorCode::corrupt_data, "it is empty");
  KeptConfusion kept;
  kept.classes.assign(rows[0].begin() + 1, rows[0].end());
  if (kept.classes.size() > kMostInMatrix)
    throw Error(ErrorCode::corrupt_data, "it has more than " + std::to_string(kMostInMatrix) + " classes");
  if (kept.classes.empty() || rows.size() != rows[0].size())
    throw Error(ErrorCode::corrupt_data, "its first row has " + std::to_string(kept.classes.size()) +
                                             " classes, and there are " + std::to_string(rows.size() - 1) +
                                             " rows below");
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].size() != rows[0].size() || rows[i][0] != rows[0][i])
      throw Error(ErrorCode::corrupt_data, "row " + std::to_string(i + 1) + " is not that of class " +
                                               quote(rows[0][i]) + " with a number for each class");
    kept.counts.push_back(counts_in(rows[i]));
  }
  return kept;
}

}  // namespace

std::string confusion_text(const KeptConfusion& confusion) {
  std::string text = kCorner;
  for (const std::string& name : confusion.classes) text += "," + csv_cell(name);
  text += "\n";
  for (size_t i = 0; i < confusion.classes.size(); ++i) {
    text += csv_cell(confusion.classes[i]);
    for (const int64_t count : confusion.counts[i]) text += "," + std::to_string(count);
    text += "\n";
  }
  return text;
}

std::optional<KeptConfusion> read_confusion(const std::filesystem::path& run_folder) {
  const std::filesystem::path file = RunPaths{run_folder}.confusion();
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return std::nullopt;
  try {
    return confusion_of(read_file(file, kMostConfusionBytes));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt_data) throw;
    throw Error(ErrorCode::corrupt_data, quote(file.string()) + " is damaged: " + error.message());
  }
}

}  // namespace lockstep::record
