// A folder of class folders with CSV files: one file a sequence, a line a time step, a column a channel; a first line of names is left out.
#include <algorithm>
#include <charconv>
#include <set>

#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/sequence_text.h"

namespace lockstep::data {
namespace {

bool is_csv(const std::filesystem::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".csv" || extension == ".CSV";
}

bool is_hidden(const std::filesystem::path& path) { return path.filename().string().starts_with('.'); }

/// Calls visit(path) for each file below `root`, until it says false.
template <class Visit>
void walk(const std::filesystem::path& root, Visit&& visit) {
  // Folders that may not be read are named by who reads them.
  for (auto at = std::filesystem::recursive_directory_iterator(root, std::filesystem::directory_options::skip_permission_denied); at != std::filesystem::recursive_directory_iterator(); ++at) {
    if (is_hidden(at->path())) {
      if (at->is_directory()) at.disable_recursion_pending();
      continue;
    }
    if (at->is_regular_file() && !visit(at->path())) return;
  }
}

/// Whether no cell of the line is a number.
bool names_channels(std::string_view line) {
  for (std::optional rest(line); rest;) {
    const std::string_view word = next_cell(rest);
    float value = 0;
    if (std::from_chars(word.data(), word.data() + word.size(), value).ec == std::errc()) return false;
  }
  return true;
}

/// Rows of the file, [T,C], turned to [C,T].
std::vector<float> turned(const std::vector<float>& rows, int64_t channels) {
  const auto steps = static_cast<int64_t>(rows.size()) / channels;
  std::vector<float> values(rows.size());
  for (int64_t t = 0; t < steps; ++t) {
    for (int64_t c = 0; c < channels; ++c) values[static_cast<size_t>(c * steps + t)] = rows[static_cast<size_t>(t * channels + c)];
  }
  return values;
}

/// Reads one file; `channels` is what earlier files have, 0 before the first.
Sequence read_csv(const std::filesystem::path& path, int64_t& channels) {
  const std::string text = read_file(path, kMostSequenceBytes);
  std::string_view rest = text, line;
  TextPlace place{path.string()};
  std::vector<float> rows;
  while (next_line(rest, line, place)) {
    if (line.empty() || (rows.empty() && place.line == 1 && names_channels(line))) continue;
    const size_t before = rows.size();
    append_numbers(line, place, rows);
    const auto count = static_cast<int64_t>(rows.size() - before);
    if (channels == 0) channels = count;
    if (count != channels) refuse(place, "there are " + std::to_string(count) + " values in the line, and " + std::to_string(channels) + " before");
  }
  if (rows.empty()) refuse(place, "the file has no time step");
  return {.values = turned(rows, channels), .source = path.string()};
}

std::string folder_of(const std::filesystem::path& file, const std::filesystem::path& root, Labels labels) {
  const std::filesystem::path relative = file.lexically_relative(root);
  if (relative.begin() == --relative.end()) return "";
  return labels == Labels::top ? relative.begin()->string() : file.parent_path().filename().string();
}

std::vector<std::filesystem::path> csv_files(const std::filesystem::path& root) {
  if (!std::filesystem::is_directory(root)) return {root};
  std::vector<std::filesystem::path> files;
  walk(root, [&](const std::filesystem::path& path) {
    if (is_csv(path)) files.push_back(path);
    return true;
  });
  return files;
}

}  // namespace

bool fits_csv(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return is_csv(path);
  bool any_csv = false, any_picture = false;
  walk(path, [&](const std::filesystem::path& file) {
    any_csv |= is_csv(file);
    any_picture |= is_picture_name(file.string());
    return !any_picture;
  });
  return any_csv && !any_picture;
}

Source open_csv(const std::filesystem::path& path, const SourceOptions& options) {
  const std::filesystem::path root = std::filesystem::is_directory(path) ? path : path.parent_path();
  std::vector<std::pair<std::string, std::filesystem::path>> files;  // class and path
  for (const auto& file : csv_files(path)) {
    const std::string name = root == path ? folder_of(file, root, options.labels) : std::filesystem::absolute(file).parent_path().filename().string();
    if (name.empty() && !options.unlabelled) {
      throw Error(ErrorCode::invalid_option, "\"" + file.string() + "\" lies in no class folder", "put it into a folder that has the class's name");
    }
    files.emplace_back(name, file);
  }
  std::sort(files.begin(), files.end());
  std::set<std::string> names;
  for (const auto& [name, file] : files) {
    if (!name.empty()) names.insert(name);
  }
  const std::vector<std::string> classes(names.begin(), names.end());
  std::vector<Sequence> sequences;
  int64_t channels = 0, numbers = 0;
  for (const auto& [name, file] : files) {
    Sequence sequence = read_csv(file, channels);
    numbers += static_cast<int64_t>(sequence.values.size());
    if (numbers > kMostSequenceNumbers) throw Error(ErrorCode::invalid_option, "\"" + path.string() + "\" has more than the " + with_commas(kMostSequenceNumbers) + " numbers allowed");
    sequence.label = name.empty() ? -1 : std::distance(names.begin(), names.find(name));
    sequences.push_back(std::move(sequence));
  }
  return source_of(channels, classes, std::move(sequences), path.string(), "sequence folder", options);
}

}  // namespace lockstep::data
