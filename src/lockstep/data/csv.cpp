// A folder of class folders with CSV files. A file is a sequence, a line is a time step, a column is a
// channel. A first line with names is skipped. A value may have quotes.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <tuple>

#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/parallel.h"
#include "lockstep/data/internal/sequence_text.h"

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

/// Whether no cell of the line is a number.
bool names_channels(std::string_view line) {
  for (std::optional rest(line); rest;) {
    const std::string_view word = without_plus(next_cell(rest));
    float value = 0;
    if (word == "?" || std::from_chars(word.data(), word.data() + word.size(), value).ec == std::errc())
      return false;
  }
  return true;
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
Sequence read_csv(const std::string& text, const std::string& path, int64_t& channels) {
  std::string_view rest = without_mark(text), line;
  TextPlace place{path};
  std::vector<float> rows;
  while (next_line(rest, line, place)) {
    if (line.empty() || (rows.empty() && place.line == 1 && names_channels(line))) continue;
    const size_t before = rows.size();
    append_numbers(line, place, rows);
    const auto count = static_cast<int64_t>(rows.size() - before);
    if (channels == 0) channels = count;
    if (count != channels)
      refuse(place,
             "the line has " + std::to_string(count) + " values, but earlier lines have " +
                 std::to_string(channels),
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

std::vector<ClassFile> csv_files(const Files& files, const SourceOptions& options) {
  std::vector<ClassFile> found;
  for (const Files::Name& name : files.names()) {
    if (name.kind != io::Listed::Kind::file || !is_csv_name(files.path(name))) continue;
    const std::filesystem::path path(files.path(name));
    found.push_back({class_of(files, path, options.labels), path, name.bytes});
    if (found.back().class_name.empty() && !options.unlabelled) {
      throw Error(ErrorCode::invalid_option,
                  "\"" + files.shown(files.path(name)) + "\" is not in a class folder",
                  "move it into a folder with the name of its class");
    }
  }
  std::sort(found.begin(), found.end());
  return found;
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
    texts[static_cast<size_t>(i)] = store.read({file.path.native(), file.bytes}, kMostSequenceBytes);
  });
  return texts;
}

}  // namespace

bool is_csv_name(std::string_view name) { return name.ends_with(".csv") || name.ends_with(".CSV"); }

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
  if (files.one_file() && options.classes.empty() && !options.unlabelled)
    throw Error(
        ErrorCode::invalid_option,
        "\"" + files.root() + "\" is one CSV file, which is one sequence: a line for each time step",
        "give a folder with a folder of such files for each class; tables with a sample in each line are "
        "not supported");
  const std::vector<ClassFile> found = csv_files(files, options);
  std::set<std::string> names;
  for (const ClassFile& file : found) {
    if (!file.class_name.empty()) names.insert(file.class_name);
  }
  const std::vector<std::string> classes(names.begin(), names.end());
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
        throw Error(ErrorCode::invalid_option, "\"" + files.root() + "\" has more than the maximum of " +
                                                   with_commas(kMostSequenceNumbers) + " numbers");
      sequence.label = name.empty() ? -1 : std::distance(names.begin(), names.find(name));
      sequences.push_back(std::move(sequence));
    }
  }
  return source_of(channels, classes, std::move(sequences), files.root(), files.described("sequence folder"),
                   options);
}

}  // namespace lockstep::data
