// A table of images (.csv, .tsv, .txt): a line has an image's file name and its class, or a 1 in the class's
// column. Names are relative to the table's folder, or are those of files that lie somewhere below it. In
// tables without any endings (.jpg), they are those of images without their endings.
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/cells.h"
#include "lockstep/data/internal/image_listing.h"
#include "lockstep/data/internal/images_by_name.h"
#include "lockstep/data/internal/kinds.h"
#include "lockstep/data/internal/sequence_text.h"
#include "lockstep/data/internal/strays.h"

namespace lockstep::data {
namespace {

constexpr int64_t kMostTableBytes = int64_t{1} << 30;

using Cells = std::vector<std::string>;

struct TableLine {
  int64_t number = 0;  // counted from 1
  std::string image{}, class_name{};
};

std::optional<size_t> image_column(const Cells& cells) {
  const auto found = std::ranges::find_if(cells, is_image_name);
  return found == cells.end() ? std::nullopt : std::optional<size_t>(found - cells.begin());
}

// The cells in a message: "id", "breed".
std::string listed(const Cells& cells) {
  Cells quoted;
  for (const std::string& cell : cells) quoted.push_back(quote(cell));
  return join(quoted, ", ");
}

constexpr std::array<std::string_view, 7> kColumnsOfClasses{"label",      "labels",   "class", "classes",
                                                            "class_name", "category", "target"};
constexpr std::array<std::string_view, 9> kColumnsOfImages{
    "id", "id_code", "image", "image_id", "image_name", "file", "filename", "file_name", "name"};

/// The first column, but for `other`, of a known name.
std::optional<size_t> named_column(const Cells& names, std::span<const std::string_view> known,
                                   std::optional<size_t> other) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (i != other && std::ranges::find(known, lower(names[i])) != known.end()) return i;
  }
  return std::nullopt;
}

/// The column with the classes: that of such a name, or the only one beside the images. None: not known.
std::optional<size_t> class_column(const Cells& names, size_t image, size_t columns) {
  if (const auto named = named_column(names, kColumnsOfClasses, image)) return named;
  return columns == 2 ? std::optional<size_t>(1 - image) : std::nullopt;
}

// Names of Windows' programs have other slashes.
std::string path_of(std::string cell) {
  std::ranges::replace(cell, '\\', '/');
  while (cell.starts_with("./")) cell.erase(0, 2);
  return cell;
}

/// The column with the names of images without endings.
struct IdColumn {
  size_t column = 0;
  bool is_after_names = false;  // whether the first line has the columns' names
};

bool has_numbers_only(const Cells& cells) {
  return std::ranges::all_of(cells, [](const std::string& cell) {
    return cell.empty() || cell == "?" || parse_number<double>(without_plus(cell));
  });
}

// Numbers may be a sequence, so that one of their columns must be named as that of the classes or of the
// images.
enum class Columns { named, all };
template <class IsImage>
std::optional<IdColumn> id_column_among(Columns columns, std::string_view text, const IsImage& is_image) {
  Cells first;
  std::optional<size_t> class_names, image_names;
  std::optional<IdColumn> found;
  TextPlace place;
  const char separator = separator_of(text);
  for (std::string_view line; next_line(text, line, place);) {
    if (has_no_cells(line)) continue;
    const Cells cells = cells_of(line, separator);
    if (image_column(cells)) return std::nullopt;
    if (found) return found;
    const bool is_first = first.empty();
    if (is_first) {
      first = cells;
      class_names = named_column(cells, kColumnsOfClasses, std::nullopt);
      image_names = named_column(cells, kColumnsOfImages, class_names);
      if (class_names) continue;
    }
    if (!class_names && !image_names && has_numbers_only(cells)) continue;
    const auto take = [&](size_t i) {
      if (!found && i < cells.size() && i != class_names && is_image(path_of(cells[i])))
        found = IdColumn{i, !is_first};
    };
    if (columns == Columns::named && image_names) take(*image_names);
    for (size_t i = 0; columns == Columns::all && i < first.size(); ++i) take(i);
    if (found && !is_first) return found;
  }
  return found;
}

/// The column of such a name with a cell that is_image(cell) accepts, or the first column with one. None if
/// one of the first two lines, or one before that cell, has an image's file name.
template <class IsImage>
std::optional<IdColumn> id_column(std::string_view text, const IsImage& is_image) {
  const auto named = id_column_among(Columns::named, text, is_image);
  return named ? named : id_column_among(Columns::all, text, is_image);
}

bool may_have_ids(std::string_view text) {
  return id_column(text, [](std::string_view) { return true; }).has_value();
}

class TableReader {
 public:
  /// ids: none if the images' names have endings.
  TableReader(std::string_view text, std::string path, std::optional<IdColumn> ids, bool unlabelled)
      : rest_(text),
        place_{std::move(path)},
        ids_(ids),
        unlabelled_(unlabelled),
        separator_(separator_of(text)) {}

  /// Throws corrupt_data with the line.
  std::vector<TableLine> read() {
    std::vector<TableLine> lines;
    Cells names;
    for (std::string_view line; next_line(rest_, line, place_);) {
      if (has_no_cells(line)) continue;
      bool has_open_quote = false;
      Cells cells = cells_of(line, separator_, &has_open_quote);
      if (has_open_quote)
        refuse(place_, kOpenQuote, "write a value without ends of lines, and each quote within quotes twice");
      check_count(cells);
      if (image_) {
        lines.push_back(line_of(std::move(cells)));
      } else if (const auto image = column_of_image(cells, names)) {
        find_columns(names, cells, *image);
        lines.push_back(line_of(std::move(cells)));
      } else if (names.empty()) {
        names = std::move(cells);
      } else {
        refuse(place_, "no value is the name of an image", "names end in .png, .jpg and so on");
      }
    }
    return lines;
  }

 private:
  std::optional<size_t> column_of_image(const Cells& cells, const Cells& names) const {
    if (!ids_) return image_column(cells);
    return ids_->is_after_names && names.empty() ? std::nullopt : std::optional(ids_->column);
  }

  // Programs that write tabs differ in whether they write those of empty values at the end of a line.
  void check_count(Cells& cells) {
    const bool may_end_earlier = separator_ == '\t';
    while (may_end_earlier && cells.size() > std::max(columns_, size_t{1}) && cells.back().empty())
      cells.pop_back();
    if (columns_ == 0) columns_ = cells.size();
    if (may_end_earlier && cells.size() < columns_) cells.resize(columns_);
    if (cells.size() == columns_) return;
    refuse(place_,
           "the line has " + counted(std::ssize(cells), "value") + ", but earlier lines have " +
               std::to_string(columns_),
           "a table has a line for each image and no comments; write quotes around a value that contains the "
           "separator");
  }

  void find_columns(const Cells& names, const Cells& cells, size_t image) {
    image_ = image;
    class_ = class_column(names, image, columns_);
    if (class_ || unlabelled_) return;
    if (can_be_classes(names) && place_of_one(cells)) {
      class_names_ = names;
      return;
    }
    if (columns_ == 1)
      refuse(place_, "the table has names of images, but no classes",
             "add a column with the class of each image");
    refuse(place_,
           "it is not clear which column has the classes" +
               (names.empty() ? std::string() : ": there are " + listed(names)),
           names.empty() ? "write a first line with the columns' names, such as file,label"
                         : "name it \"label\" or \"class\"");
  }

  static bool can_be_classes(const Cells& names) {
    const std::set<std::string> different(names.begin(), names.end());
    return !names.empty() && different.size() == names.size() && !different.contains("");
  }

  // Of the column with the number 1 (one-hot), where all others beside the image have 0.
  std::optional<size_t> place_of_one(const Cells& cells) const {
    std::optional<size_t> found;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (i == image_) continue;
      const auto number = parse_number<double>(cells[i]);
      if (!number || (*number != 0 && (*number != 1 || found))) return std::nullopt;
      if (*number == 1) found = i;
    }
    return found;
  }

  std::string class_of(const Cells& cells) const {
    if (class_) return cells[*class_];
    if (class_names_.empty()) return "";
    const auto one = place_of_one(cells);
    if (!one)
      refuse(place_,
             "the image is not of one class: a line has 1 in the column of its class and 0 in the others",
             "leave out other columns and images with several classes");
    return class_names_[*one];
  }

  TableLine line_of(Cells cells) const {
    TableLine line{place_.line, path_of(cells[*image_]), class_of(cells)};
    if (line.image.empty()) refuse(place_, "the name of the image is empty");
    if (line.class_name.empty() && class_ && !unlabelled_)
      refuse(place_, "the class of \"" + line.image + "\" is empty", "remove the line, or write the class");
    return line;
  }

  std::string_view rest_;
  TextPlace place_;
  const std::optional<IdColumn> ids_;
  const bool unlabelled_;
  const char separator_;
  size_t columns_ = 0;
  std::optional<size_t> image_, class_;
  Cells class_names_;  // of the columns, in a table with a column for each class
};

struct Found {
  ImageListing images{};
  std::vector<BadSample> missing{};
};

/// Throws corrupt_data if two lines give an image two classes.
Found find_images(const std::string& table, const std::vector<TableLine>& lines, const Files& folder,
                  const ImagesByName& by_name) {
  std::unordered_map<const Files::Name*, const TableLine*> taken;
  Found found;
  for (const TableLine& line : lines) {
    const Files::Name* image = by_name.find(line.image);
    if (image == nullptr) {
      found.missing.push_back(
          {line.image.starts_with('/') ? line.image : folder.shown(line.image),
           "line " + std::to_string(line.number) + " names it, but " +
               (by_name.has(line.image) ? "several images have this name" : "there is no such image")});
      continue;
    }
    const auto [at, is_new] = taken.emplace(image, &line);
    const TableLine& first = *at->second;
    if (is_new) {
      found.images.add(folder, *image, found.images.place_of(line.class_name));
    } else if (first.class_name != line.class_name) {
      refuse({table, line.number}, "\"" + line.image + "\" is of class \"" + line.class_name +
                                       "\", but of class \"" + first.class_name + "\" in line " +
                                       std::to_string(first.number));
    }
  }
  return found;
}

/// The images of a folder, for its tables.
class ImagesOfTables {
 public:
  explicit ImagesOfTables(const Files& folder) : folder_(folder) {}

  /// Throws as TableReader and find_images do.
  Found named_by(const std::string& table, const std::string& text, bool unlabelled) {
    std::optional<IdColumn> ids;
    if (may_have_ids(text)) {
      const ImagesByName& images = by_name(Endings::left_out, without_endings_);
      ids = id_column(text, [&](std::string_view cell) { return images.has(cell); });
    }
    const std::vector<TableLine> lines = TableReader(text, table, ids, unlabelled).read();
    if (lines.empty())
      refuse({table}, "the table has no images",
             "write a line for each image, with its file name and its class");
    return find_images(table, lines, folder_,
                       ids ? *without_endings_ : by_name(Endings::written, with_endings_));
  }

 private:
  const ImagesByName& by_name(Endings endings, std::optional<ImagesByName>& made) {
    if (!made) made.emplace(folder_, endings);
    return *made;
  }

  const Files& folder_;
  std::optional<ImagesByName> without_endings_, with_endings_;
};

}  // namespace

// Sequences have numbers only, and perhaps names in the first line. The folder is listed only for a table
// that may have images without their endings.
bool fits_image_table(const Files& files) {
  if (!files.one_file() || !is_table_name(files.path(files.names().front()))) return false;
  const Files::Name& table = files.names().front();
  const std::string head = head_of(*files.store(), {files.path(table), table.bytes});
  const char separator = separator_of(head);
  std::string_view rest = head, line;
  std::vector<Cells> lines;
  for (TextPlace place; next_line(rest, line, place);) {
    if (has_no_cells(line)) continue;
    lines.push_back(cells_of(line, separator));
    if (image_column(lines.back())) return true;
  }
  if (lines.size() == 1 && named_column(lines.front(), kColumnsOfImages, std::nullopt)) return true;
  if (!may_have_ids(head)) return false;
  const ImagesByName images(files.folder_of_file(), Endings::left_out);
  return id_column(head, [&](std::string_view cell) { return images.has(cell); }).has_value();
}

Source open_image_table(Files files, const SourceOptions& options) {
  const std::string& table = files.root();
  const std::string text = text_of(files.read(files.path(files.names().front()), kMostTableBytes));
  Files& folder = files.folder_of_file();
  Found found = ImagesOfTables(folder).named_by(table, text, options.unlabelled);
  if (options.on_bad_sample == OnBadSample::fail && !found.missing.empty())
    refuse_files(table, found.missing,
                 found.missing.size() == 1 ? "the name of 1 image that cannot be found"
                                           : "the names of " + with_commas(std::ssize(found.missing)) +
                                                 " images that cannot be found",
                 "names are relative to the table's folder; --on-bad-sample skip leaves these lines out");
  found.images.paths = folder.take_paths();
  check_class_names(found.images.classes, table, options);
  check_class_count(found.images.classes.size(), table, options,
                    "the column with the classes must have at least two");
  put_in_order(table, found.images, options);
  return {images_in(folder.store(), std::move(found.images), options, table), folder.described("image table"),
          std::move(found.missing)};
}

// So that a folder with a text beside each image costs no minutes, and a hint no memory.
constexpr size_t kMostTablesTried = 20;
constexpr int64_t kMostBytesTried = 16 << 20;

// A list of the classes' names has as many lines as classes.
bool has_classes_of_images(const Found& found, int64_t images) {
  const auto named = std::ssize(found.images.entries), classes = std::ssize(found.images.classes);
  return classes > 1 && named > classes && 4 * named > images;
}

std::string table_of_classes(const Files& folder) {
  std::vector<std::string> tables = folder.at_root(is_table_name);
  std::ranges::stable_partition(tables,
                                [](const std::string& name) { return !lower(name).ends_with(".txt"); });
  tables.resize(std::min(tables.size(), kMostTablesTried));
  const auto images = std::ranges::count_if(
      folder.names(), [&](const Files::Name& name) { return is_image_name(folder.path(name)); });
  ImagesOfTables images_of_tables(folder);
  std::string best;
  size_t most = 0;
  for (const std::string& name : tables) {
    const std::string table = folder.shown(name);
    try {
      if (!folder.is_file(name)) continue;
      const std::string text = text_of(folder.read(name, kMostBytesTried));
      const Found found = images_of_tables.named_by(table, text, /*unlabelled=*/false);
      if (found.images.entries.size() <= most || !has_classes_of_images(found, images)) continue;
      most = found.images.entries.size();
      best = table;
    } catch (const Error&) {  // it is another kind of table
    }
  }
  return best;
}

}  // namespace lockstep::data
