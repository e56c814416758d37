#include "lockstep/data/internal/other_data.h"

#include <algorithm>

#include "lockstep/base/blanks.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/csv_name.h"
#include "lockstep/data/internal/cells.h"
#include "lockstep/data/internal/sequence_text.h"

namespace lockstep::data {
namespace {

constexpr const char* kWriteTs =
    "write a .ts file: a line @classLabel true with the names of the classes, a line @data, then a line for "
    "each series: its values with commas (fill in missing ones), a colon, its class";

bool is_arff_name(std::string_view name) { return lower(name).ends_with(".arff"); }

bool has_text(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Of objects in images, or of captions. The lists follow each other in any order, and each is long.
bool is_coco(std::string_view head) {
  return (has_text(head, "\"images\"") && has_text(head, "\"file_name\"")) ||
         (has_text(head, "\"annotations\"") && has_text(head, "\"image_id\""));
}

// What separates the numbers of the first line; none: it has other words. Blanks are between the numbers of
// older files of the UCR archive. The last one may be cut off.
std::optional<char> separator_of_numbers(std::string_view head) {
  const char usual = separator_of(head);
  TextPlace place;
  for (std::string_view line; next_line(head, line, place);) {
    if (has_no_cells(line)) continue;
    const char separator = has_text(line, std::string_view(&usual, 1)) ? usual : ' ';
    std::vector<std::string> cells = cells_of(without_blanks(line), separator);
    if (head.empty() && !cells.empty()) cells.pop_back();
    return !cells.empty() && std::ranges::all_of(cells, is_number) ? std::optional(separator) : std::nullopt;
  }
  return std::nullopt;
}

// The folder of a file that has one is its class.
std::string hint_for_numbers(std::string_view path, char separator) {
  const bool has_blanks = separator == ' ', has_folder = has_text(path, "/");
  return "if a line is a series and begins with its class, as in the UCR archive, " + std::string(kWriteTs) +
         "; if a line is a time step, " +
         (has_blanks ? std::string("write commas between its values") + (has_folder ? " and " : ", ") : "") +
         "name it .csv" + (has_folder ? "" : " and move it into a folder with the name of its class");
}

}  // namespace

bool may_annotate_images(std::string_view name) { return lower(name).ends_with(".json"); }

bool may_be_other_data(std::string_view name) {
  return is_arff_name(name) || may_annotate_images(name) || is_table_name(name);
}

std::optional<OtherData> other_data(const Files& files, std::string_view path) {
  if (!may_be_other_data(path)) return std::nullopt;
  if (path.find('/') == std::string_view::npos && !files.is_file(path)) return std::nullopt;
  std::string head;
  try {
    head = head_of(*files.store(), {path});
  } catch (const Error&) {  // whoever reads it says why
    return std::nullopt;
  }
  if (is_arff_name(path)) return OtherData{"is in Weka's format, which is not supported", kWriteTs};
  if (may_annotate_images(path) && is_coco(head))
    return OtherData{
        "has annotations in COCO's format, which are not supported",
        "a network gives each image one class: write a table (.csv) beside the images, with a line "
        "file,label, then a line for each image, such as 1.jpg,cat; then name the table"};
  if (!is_table_name(path) || is_csv_name(path)) return std::nullopt;
  if (const auto separator = separator_of_numbers(head))
    return OtherData{"is a table of numbers, which is not supported by this name",
                     hint_for_numbers(path, *separator)};
  return std::nullopt;
}

void refuse_other_data(const Files& files, const std::vector<std::string>& paths) {
  constexpr size_t kMostLookedInto = 20;
  for (size_t i = 0; i < std::min(paths.size(), kMostLookedInto); ++i) {
    if (const auto found = other_data(files, paths[i]))
      throw Error(ErrorCode::invalid_option, "\"" + files.shown(paths[i]) + "\" " + found->what, found->hint);
  }
}

}  // namespace lockstep::data
