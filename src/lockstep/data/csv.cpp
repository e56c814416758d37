// A folder of class folders with CSV files. A file is a sequence, a line is a time step, a column is a
// channel. Commas, semicolons or tabs are between the columns. A first line with names is skipped. A value
// may have quotes.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "lockstep/base/blanks.h"
#include "lockstep/base/counted.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/cells.h"
#include "lockstep/data/internal/dataset_parts.h"
#include "lockstep/data/internal/parallel.h"
#include "lockstep/data/internal/sequence_text.h"
#include "lockstep/data/internal/strays.h"

namespace lockstep::data {
namespace {

// This many files are read before they are parsed, so that a server gets the requests together; fewer if the
// files are long.
constexpr size_t kFilesAtOnce = 512;
constexpr int64_t kBytesAtOnce = 64 << 20;

struct ClassFile {
  std::string class_name;
  std::filesystem::path path;  // relative to the folder
  int64_t bytes;
  friend bool operator<(const ClassFile& a, const ClassFile& b) {
    return std::tie(a.class_name, a.path) < std::tie(b.class_name, b.path);
  }
};

// Names can begin as numbers do: infrared, nanotesla, 2theta. What begins as a number in another way is a
// value, so that "1 2" is refused and not skipped as a name.
bool begins_as_value(std::string_view word) {
  float value = 0;
  const char* const word_end = word.data() + word.size();
  const auto [end, code] = std::from_chars(word.data(), word_end, value);
  if (code == std::errc::invalid_argument) return false;
  return end == word_end || (*end != '_' && std::isalpha(static_cast<unsigned char>(*end)) == 0);
}

/// Whether no cell of the line is a number.
bool names_channels(std::string_view line, char separator) {
  for (CellReader cells(line, separator); !cells.at_end();) {
    const std::string_view word = without_plus(cells.next());
    if (word == "?" || begins_as_value(word)) return false;
  }
  return true;
}

bool has_only_numbers(std::string_view line, char separator) {
  for (CellReader cells(line, separator); !cells.at_end();) {
    if (!is_number(cells.next())) return false;
  }
  return true;
}

int64_t count_filled(std::string_view line, char separator) {
  int64_t count = 0;
  for (CellReader cells(line, separator); !cells.at_end();) count += !cells.next().empty();
  return count;
}

/// A comma if the first line with values has numbers with commas, whatever is beside the commas. They are
/// decimal commas below names that are as many with another separator, such as "value;".
char separator_of_values(std::string_view text) {
  const char likely = separator_of(text);
  std::string_view rest = text, line, names;
  TextPlace place;
  for (bool is_first = true; next_line(rest, line, place);) {
    if (without_blanks(line).empty()) continue;
    if (has_no_cells(line)) break;  // it says what separates
    if (std::exchange(is_first, false) && names_channels(line, ',')) {
      names = line;
      continue;
    }
    const bool is_decimal = likely != ',' && count_filled(names, likely) == count_filled(line, likely);
    if (has_only_numbers(line, ',') && !is_decimal) return ',';
    break;
  }
  return likely;
}

/// Rows of the file, [T,C], transposed to [C,T].
std::vector<float> transposed(const std::vector<float>& rows, int64_t channels) {
  const auto steps = static_cast<int64_t>(rows.size()) / channels;
  std::vector<float> values(rows.size());
  for (int64_t t = 0; t < steps; ++t) {
    for (int64_t c = 0; c < channels; ++c)
      values[static_cast<size_t>(c * steps + t)] = rows[static_cast<size_t>(t * channels + c)];
  }
  return values;
}

/// Parses one file's text; `channels` is the number of channels of earlier files, 0 before the first.
Sequence read_csv(std::string_view text, const std::string& path, int64_t& channels) {
  std::string_view rest = text, line;
  TextPlace place{path};
  std::vector<float> rows;
  const char separator = separator_of_values(text);
  for (bool is_first = true; next_line(rest, line, place);) {
    if (has_no_cells(line)) continue;
    if (std::exchange(is_first, false) && names_channels(line, separator)) continue;
    const size_t before = rows.size();
    append_numbers(line, separator, place, rows);
    const auto count = static_cast<int64_t>(rows.size() - before);
    if (channels == 0) channels = count;
    if (count != channels)
      refuse(place,
             "the line has " + counted(count, "value") + ", but earlier lines have " + with_commas(channels),
             "every line of every file needs a value for each channel");
  }
  if (rows.empty())
    refuse(place, "the file has no time steps", "write a line for each time step, such as 0.5,1.2");
  return {.values = transposed(rows, channels), .source = path};
}

// For a file that was named directly, the class is the name of its folder.
std::string class_of(const Files& files, const std::filesystem::path& path, Labels labels) {
  if (files.one_file()) return std::filesystem::absolute(files.root()).parent_path().filename().string();
  if (!path.has_parent_path()) return "";
  return labels == Labels::top ? path.begin()->string() : path.parent_path().filename().string();
}

// What a folder contains; strays and empty folders in the order of their paths.
struct CsvListing {
  std::vector<ClassFile> files;
  std::vector<BadSample> strays, empty_folders;
  DatasetParts parts{SampleWords{.plural = "samples", .file = "1.csv"}};
};

// Some stores do not list folders, so folders are also derived from the files' paths.
class CsvSorting {
 public:
  CsvSorting(const Files& files, const SourceOptions& options) : files_(files), options_(options) {}

  CsvListing run() {
    folder_at("");
    for (const Files::Name& name : files_.names()) take(name);
    if (!files_.one_file()) note_folders();
    std::sort(listing_.files.begin(), listing_.files.end());
    std::sort(listing_.strays.begin(), listing_.strays.end(), by_source);
    return std::move(listing_);
  }

  static bool by_source(const BadSample& a, const BadSample& b) { return a.source < b.source; }

 private:
  struct Folder {
    bool has_csv_itself = false;
    bool has_csv = false;  // in this folder or below
    bool has_folder = false;
  };

  static std::string_view folder_of(std::string_view path) {
    const size_t slash = path.rfind('/');
    return path.substr(0, slash == std::string_view::npos ? 0 : slash);
  }

  Folder& folder_at(std::string_view path) {
    const auto [at, is_new] = folders_.try_emplace(std::string(path));
    if (is_new && !path.empty()) folder_at(folder_of(path)).has_folder = true;
    return at->second;
  }

  void take(const Files::Name& name) {
    const std::string_view path = files_.path(name), parent = folder_of(path);
    if (name.kind == io::Listed::Kind::folder) {
      folder_at(path);
      return;
    }
    Folder& folder = folder_at(parent);
    if (name.kind != io::Listed::Kind::file) {
      if (!parent.empty() || is_csv_name(path) || !is_note(path))
        listing_.strays.push_back({files_.shown(path), kNoFile});
    } else if (is_csv_name(path)) {
      folder.has_csv_itself = folder.has_csv = true;
      listing_.files.push_back({class_of(files_, path, options_.labels), path, name.bytes});
      if (listing_.files.back().class_name.empty() && !options_.unlabelled)
        throw Error(ErrorCode::invalid_option, "\"" + files_.shown(path) + "\" is not in a class folder",
                    "move it into a folder with the name of its class");
    }
  }

  static int64_t depth_of(std::string_view path) { return std::count(path.begin(), path.end(), '/'); }

  // A folder that lies where classes do should be one. Runs and others may lie elsewhere.
  void note_folders() {
    for (auto& [path, folder] : folders_) {
      if (!folder.has_csv_itself) continue;
      for (std::string_view above = folder_of(path); !above.empty(); above = folder_of(above))
        folder_at(above).has_csv = true;
    }
    if (options_.labels == Labels::top) return;
    std::set<int64_t> depths;  // of classes
    for (const auto& [path, folder] : folders_) {
      if (folder.has_csv_itself) depths.insert(depth_of(path));
    }
    for (const auto& [path, folder] : folders_) {
      if (path.empty()) continue;
      if (folder.has_csv) {
        listing_.parts.add(path, folder.has_csv_itself);
      } else if (!folder.has_folder && depths.contains(depth_of(path))) {
        listing_.empty_folders.push_back({files_.shown(path), "the class folder contains no CSV files"});
      }
    }
  }

  const Files& files_;
  const SourceOptions& options_;
  CsvListing listing_;
  std::map<std::string, Folder> folders_;  // its elements do not move
};

// The same rules as for images.
void check_csv_listing(const CsvListing& listing, const std::string& root, const SourceOptions& options) {
  if (options.on_bad_sample == OnBadSample::skip || options.unlabelled) return;
  if (!listing.strays.empty()) refuse_strays(root, listing.strays);
  if (options.classes.empty() && !listing.empty_folders.empty())
    throw Error(ErrorCode::invalid_option,
                "the class folder \"" + listing.empty_folders.front().source + "\" contains no CSV files",
                "remove the folder, or add --on-bad-sample skip");
}

// How many of the next files are read together: one if they are on a disk or their sizes are unknown.
size_t count_at_once(const io::ByteStore& store, std::span<const ClassFile> next) {
  size_t count = 0;
  for (int64_t bytes = 0;
       store.parallel_reads() > 1 && count < std::min(kFilesAtOnce, next.size()) && next[count].bytes >= 0;
       ++count) {
    bytes += next[count].bytes;
    if (bytes > kBytesAtOnce) break;
  }
  return std::max<size_t>(1, count);
}

std::vector<std::string> read_texts(const io::ByteStore& store, std::span<const ClassFile> files) {
  std::vector<std::string> texts(files.size());
  for_each_index(static_cast<int64_t>(files.size()), store.parallel_reads(), [&](int64_t i) {
    const ClassFile& file = files[static_cast<size_t>(i)];
    texts[static_cast<size_t>(i)] = text_of(store.read({file.path.native(), file.bytes}, kMostSequenceBytes));
  });
  return texts;
}

bool has_values(std::string_view text) {
  const char separator = separator_of_values(text);
  std::string_view line;
  TextPlace place;
  for (bool is_first = true; next_line(text, line, place);) {
    if (!has_no_cells(line) && !(std::exchange(is_first, false) && names_channels(line, separator)))
      return true;
  }
  return false;
}

// It has no class, or it is empty.
[[noreturn]] void refuse_one_file(const Files& files) {
  const Files::Name& file = files.names().front();
  const std::string_view path = files.path(file);
  if (!has_values(head_of(*files.store(), {path, file.bytes})) &&
      files.store()->size_of(path).value_or(0) <= kHeadBytes)
    data::refuse(
        {files.root()}, "the file has no lines with values",
        "a sequence has a line for each time step, such as 0.5,1.2; a table has one for each image, such as "
        "photos/1.jpg,cat");
  throw Error(
      ErrorCode::invalid_option,
      "\"" + files.root() + "\" is one CSV file, which is one sequence: a line for each time step",
      "give a folder with a folder of such files for each class; a table of images needs their file names, "
      "such as photos/1.jpg, and a column \"label\"");
}

}  // namespace

bool is_csv_name(std::string_view name) {
  return name.size() > 3 && lower(name.substr(name.size() - 4)) == ".csv";
}

bool is_table_name(std::string_view name) {
  const std::string low = lower(name);
  return low.ends_with(".csv") || low.ends_with(".tsv") || low.ends_with(".txt");
}

bool fits_csv(const Files& files) {
  if (files.one_file()) return is_csv_name(files.path(files.names().front()));
  bool any_csv = false;
  for (const Files::Name& name : files.names()) {
    if (name.kind != io::Listed::Kind::file) continue;
    if (is_image_name(files.path(name))) return false;
    any_csv |= is_csv_name(files.path(name));
  }
  return any_csv;
}

Source open_csv(Files files, const SourceOptions& options) {
  if (files.one_file() && options.classes.empty() && !options.unlabelled) refuse_one_file(files);
  const std::string& root = files.root();
  CsvListing listing = CsvSorting(files, options).run();
  check_csv_listing(listing, root, options);
  const std::vector<ClassFile>& found = listing.files;
  std::set<std::string> names;
  for (const ClassFile& file : found) {
    if (!file.class_name.empty()) names.insert(file.class_name);
  }
  const std::vector<std::string> classes(names.begin(), names.end());
  check_class_names(classes, root, options);
  if (options.classes.empty() && !options.unlabelled) listing.parts.check(root, classes.size());
  std::vector<Sequence> sequences;
  int64_t channels = 0, numbers = 0;
  for (auto next = std::span(found); !next.empty();) {
    const auto some = next.first(count_at_once(*files.store(), next));
    next = next.subspan(some.size());
    const std::vector<std::string> texts = read_texts(*files.store(), some);
    for (size_t i = 0; i < some.size(); ++i) {
      const std::string& name = some[i].class_name;
      Sequence sequence = read_csv(texts[i], files.shown(some[i].path.native()), channels);
      numbers += static_cast<int64_t>(sequence.values.size());
      if (numbers > kMostSequenceNumbers)
        throw Error(ErrorCode::invalid_option, "\"" + root + "\" has more than the maximum of " +
                                                   with_commas(kMostSequenceNumbers) + " numbers");
      sequence.label = name.empty() ? -1 : std::distance(names.begin(), names.find(name));
      sequences.push_back(std::move(sequence));
    }
  }
  Source source =
      source_of(channels, classes, std::move(sequences), root, files.described("sequence folder"), options);
  source.skipped = std::move(listing.strays);
  if (options.classes.empty())
    source.skipped.insert(source.skipped.end(), listing.empty_folders.begin(), listing.empty_folders.end());
  std::sort(source.skipped.begin(), source.skipped.end(), CsvSorting::by_source);
  source.warning = listing.parts.warning(root, source.dataset.classes());
  return source;
}

}  // namespace lockstep::data
