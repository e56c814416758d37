#include "lockstep/data/internal/dataset_parts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::data {
namespace {

// The usual words, each with the option that takes the part, in a command's order.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kParts{
    {{"train", ""},
     {"training", ""},
     {"val", "--validation "},
     {"valid", "--validation "},
     {"validation", "--validation "},
     {"dev", "--validation "},
     {"eval", "--validation "},
     {"test", "--test "},
     {"testing", "--test "}}};

std::string_view parent_in(std::string_view path) {
  return path.substr(0, path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/'));
}

std::string_view last_in(std::string_view path) {
  return path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1);
}

// The place in kParts of the first usual word in a name.
std::optional<size_t> part_in(std::string_view name) {
  const std::string text = lower(name);
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c < 0; };
  for (auto begin = text.begin(); begin != text.end();) {
    const auto end = std::find_if_not(begin, text.end(), is_letter);
    for (size_t i = 0; i < kParts.size(); ++i) {
      if (kParts[i].first == std::string_view(begin, end)) return i;
    }
    begin = std::find_if(end, text.end(), is_letter);
  }
  return std::nullopt;
}

// Whether the whole name is such a word.
bool is_plain_part(std::string_view name) {
  const auto part = part_in(name);
  return part && kParts[*part].first.size() == name.size();
}

std::vector<std::string> plain_parts(const std::vector<std::string>& paths) {
  std::vector<std::string> plain;
  std::copy_if(paths.begin(), paths.end(), std::back_inserter(plain), is_plain_part);
  return plain;
}

// The command that names the parts separately.
std::string apart(const std::string& root, const std::vector<std::string>& parts) {
  std::string words;
  for (size_t i = 0; i < kParts.size(); ++i) {
    for (const std::string& path : parts) {
      if (part_in(last_in(path)) == i) words += " " + std::string(kParts[i].second) + root + "/" + path;
    }
  }
  return "lockstep train" + words;
}

void insert_sorted(std::vector<std::string>& paths, std::string_view path) {
  paths.insert(std::lower_bound(paths.begin(), paths.end(), path), std::string(path));
}

}  // namespace

std::string or_table(const std::string& hint, const FindTable& find_table) {
  const std::string table = find_table ? find_table() : "";
  return table.empty() ? hint : "name the table with the classes: " + table + "; or " + hint;
}

bool is_dataset_part(std::string_view name) { return part_in(name).has_value(); }

void DatasetParts::add(std::string_view path, bool has_samples_itself) {
  if (has_samples_itself) {
    ClassFolders& folders = classes_[std::string(last_in(path))];
    if (folders.count == 0 || path < folders.first) folders.first = path;
    if (folders.count == 0 || path > folders.last) folders.last = path;
    ++folders.count;
  }
  Level& level = levels_[std::string(parent_in(path))];
  if (!is_dataset_part(last_in(path))) {
    level.has_others = true;
  } else {
    insert_sorted(has_samples_itself ? level.unlabelled : level.labelled, path);
  }
}

void DatasetParts::check(const std::string& root, size_t class_count, const FindTable& find_table) const {
  const auto top = levels_.find("");
  if (top == levels_.end()) return;
  const std::vector<std::string> labelled = plain_parts(top->second.labelled),
                                 unlabelled = plain_parts(top->second.unlabelled);
  const bool all = unlabelled.size() > 1 && unlabelled.size() == class_count;
  if (unlabelled.empty() || (labelled.empty() && !all)) return;
  const std::string folder = root + "/" + unlabelled.front();
  const std::string samples = words_.plural;
  throw Error(ErrorCode::invalid_option, "\"" + folder + "\" has " + samples + " and no class folders",
              labelled.empty() ? or_table(own_folders(folder), find_table)
                               : "train on the other part only: " + root + "/" + labelled.front() +
                                     "; lockstep predict takes " + samples + " without labels");
}

std::string DatasetParts::own_folders(const std::string& folder) const {
  return "put the " + std::string(words_.plural) + " of each class into their own folder: " + folder +
         "/cat/" + words_.file;
}

std::string DatasetParts::used_as_one(const std::string& root) const {
  for (const auto& [parent, level] : levels_) {
    const bool all = !level.has_others && level.unlabelled.empty();
    const std::vector<std::string> parts = all              ? level.labelled
                                           : parent.empty() ? plain_parts(level.labelled)
                                                            : std::vector<std::string>{};
    if (parts.size() < 2) continue;
    return "the folders " + join(parts, ", ") + " of \"" + root +
           "\" are used as one dataset; to use them separately: " + apart(root, parts);
  }
  return "";
}

std::string DatasetParts::used_as_classes(const std::string& root, const std::vector<std::string>& classes,
                                          const FindTable& find_table) const {
  // With --labels top no folder was added.
  if (classes_.empty() || classes.size() < 2 || !std::all_of(classes.begin(), classes.end(), is_dataset_part))
    return "";
  const std::string path = root + "/" + classes_.begin()->second.first;
  return "all labels of \"" + root + "\" are usual names of parts of a dataset: " + join(classes, ", ") +
         (path.find('/', root.size() + 1) == std::string::npos
              ? "; " + or_table(own_folders(path), find_table)
              : "; if the classes are the folders above them: --labels top");
}

std::string DatasetParts::merged(const std::string& root) const {
  for (const auto& [name, folders] : classes_) {
    if (folders.count < 2) continue;
    return "class \"" + name + "\" has the " + words_.plural + " of " + with_commas(folders.count) +
           " folders of \"" + root + "\", such as " + folders.first + " and " + folders.last +
           "; to use the first level as classes: --labels top";
  }
  return "";
}

std::string DatasetParts::warning(const std::string& root, const std::vector<std::string>& classes,
                                  const FindTable& find_table) const {
  std::string text = used_as_one(root);
  if (text.empty()) text = used_as_classes(root, classes, find_table);
  return text.empty() ? merged(root) : text;
}

}  // namespace lockstep::data
