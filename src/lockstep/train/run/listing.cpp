#include "lockstep/train/run/listing.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_set>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/data/sequences.h"

namespace lockstep::train {
namespace {

constexpr int64_t kMostListingBytes = int64_t{1} << 30;

// A file of the data: an image, or samples of a part of the data that are in one file.
struct ListedFile {
  std::string part, class_name, file;
  std::string content = {};  // a hash of the samples and labels in it; empty: an image

  // The same in a copy of the data, and on the other side of a split.
  uint64_t name_key() const { return hash_of(file.substr(file.rfind('/') + 1), hash_of(class_name)); }
  uint64_t key() const { return hash_of(content, name_key()); }
};

// "train.ts#17, steps 0 to 9" is in "train.ts".
std::string file_of(std::string source) {
  source.resize(std::min(source.size(), source.rfind(", steps ")));
  const size_t number = source.rfind('#');
  if (number != std::string::npos && source.find_first_not_of("0123456789", number + 1) == std::string::npos)
    source.resize(number);
  return source;
}

std::string class_of(const data::Datastore& store, int64_t index) {
  const int64_t label = store.label(index);
  return label < 0 ? "" : store.classes()[static_cast<size_t>(label)];
}

uint64_t hash_of_sample(const data::Datastore& store, int64_t index, uint64_t hash) {
  hash = hash_of(class_of(store, index), hash);
  if (store.kind() == data::SampleKind::image) return hash;
  const std::vector<float> values = data::read_values(store, index);
  hash = hash_of(std::as_bytes(store.time_step_labels(index)), hash);
  return hash_of(std::as_bytes(std::span(values)), hash);
}

// Of samples that lie in memory; in the order of their names.
std::vector<ListedFile> files_in_memory(const std::string& part, const data::Datastore& store) {
  struct Content {
    std::string class_name;
    uint64_t hash = 0;
  };
  std::map<std::string, Content> contents;
  for (int64_t i = 0; i < store.size(); ++i) {
    if (store.image_size(i).width == 0) continue;  // no piece of a sequence
    const std::string class_name = class_of(store, i);
    Content& content = contents.try_emplace(file_of(store.source(i)), Content{class_name}).first->second;
    if (content.class_name != class_name) content.class_name.clear();
    content.hash = hash_of_sample(store, i, content.hash);
  }
  std::vector<ListedFile> files;
  for (const auto& [file, content] : contents)
    files.push_back({part, content.class_name, file, as_hex(content.hash)});
  return files;
}

// A change in one file may move samples of all files to the other side of a split.
const data::Datastore& before_split(const data::Datastore& store) {
  const data::Datastore* found = &store;
  while (const auto whole = found->whole()) found = whole.get();  // which the part keeps alive
  return *found;
}

// Nothing if there are more files than `most`.
std::optional<std::vector<ListedFile>> files_of(const Prepared& prepared, int64_t most) {
  std::vector<ListedFile> files;
  std::set<const data::Datastore*> seen;
  for (const auto& [part, images] :
       {std::pair("train", prepared.train), std::pair("validation", prepared.validation),
        std::pair("test", prepared.test)}) {
    if (images == nullptr) continue;
    const data::Datastore& store = images->dataset().store();
    if (store.in_memory()) {
      const data::Datastore& whole = before_split(store);
      if (seen.insert(&whole).second)
        std::ranges::move(files_in_memory(part, whole), std::back_inserter(files));
    } else if (store.size() <= most) {
      for (int64_t i = 0; i < store.size(); ++i) files.push_back({part, class_of(store, i), store.source(i)});
    } else {
      return std::nullopt;
    }
    if (static_cast<int64_t>(files.size()) > most) return std::nullopt;
  }
  return files;
}

struct Differences {
  std::set<std::string> missing;  // others have no such file
  std::set<std::string> changed;  // others have it with other samples or labels
};

Differences differences(const std::vector<ListedFile>& files, const std::vector<ListedFile>& others) {
  std::unordered_set<uint64_t> names, known;
  for (const ListedFile& other : others) {
    names.insert(other.name_key());
    known.insert(other.key());
  }
  Differences found;
  for (const ListedFile& file : files) {
    if (!known.contains(file.key()))
      (names.contains(file.name_key()) ? found.changed : found.missing).insert(file.file);
  }
  return found;
}

// After other parts of a sentence; empty for no files.
std::string named(const char* what, const std::set<std::string>& files) {
  if (files.empty()) return "";
  const auto more = static_cast<int64_t>(files.size()) - 1;
  return std::string("; ") + what + " \"" + *files.begin() + "\"" +
         (more > 0 ? " and " + with_commas(more) + " more" : "");
}

}  // namespace

void write_listing(const std::filesystem::path& path, const Prepared& prepared, int64_t most) {
  const auto files = files_of(prepared, most);
  if (!files) return;
  std::string text;
  for (const ListedFile& file : *files) {
    Json line{file.part, file.class_name, file.file};
    if (!file.content.empty()) line.push_back(file.content);
    text += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  write_file_atomic(path, text);
}

std::string changed_files(const std::filesystem::path& listing, const Prepared& prepared) {
  if (!std::filesystem::exists(listing)) return "";
  std::vector<ListedFile> before;
  try {
    for (const std::string& line : split(read_file(listing, kMostListingBytes), '\n')) {
      if (line.empty()) continue;
      const Json json = parse_json(line);
      before.push_back({json.at(0).get<std::string>(), json.at(1).get<std::string>(),
                        json.at(2).get<std::string>(), json.size() > 3 ? json.at(3).get<std::string>() : ""});
    }
  } catch (const std::exception&) {
    return "";  // it is only for this message
  }
  const auto now = files_of(prepared, std::numeric_limits<int64_t>::max());
  const auto [added, changed] = differences(*now, before);
  const std::string text = named("added since:", added) +
                           named("removed since:", differences(before, *now).missing) +
                           named("other samples or labels since in", changed);
  return text.empty() ? "" : text.substr(2);
}

}  // namespace lockstep::train
