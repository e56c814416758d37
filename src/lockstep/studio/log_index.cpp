#include "lockstep/studio/log_index.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fcntl.h>
#include <span>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <thread>
#include <utility>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/user_folders.h"
#include "lockstep/record/run_folder.h"

// A file is: kMagic, the size of the head and its hash (8 bytes each), the head in JSON, then the columns in
// the byte order of the machine. The head has each column's place after itself, and its hash.
namespace lockstep::studio {
namespace {

constexpr std::string_view kMagic = "lockstep curves 2\n";
constexpr std::string_view kValues = "values.";
constexpr uint64_t kMostHead = uint64_t{64} << 20;
constexpr uint64_t kMostPoints = uint64_t{1} << 32;
constexpr uintmax_t kMostIndexBytes = uintmax_t{1} << 30;  // of all files
constexpr uintmax_t kLeastFree = 20;                       // times a file's size
constexpr size_t kReadingThreads = 4;

std::span<char> bytes_of(auto& values) {
  return {reinterpret_cast<char*>(values.data()), values.size() * sizeof(values[0])};
}

std::string_view bytes_of(const auto& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

// What tells a log from another one that has its name, beside its last bytes, which a Follower compares.
struct Identity {
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t modified = 0;  // nanoseconds
};

std::optional<Identity> identity_of(const std::filesystem::path& log) {
  struct stat status {};
  if (::stat(log.c_str(), &status) != 0) return std::nullopt;
  constexpr int64_t kNanoseconds = 1'000'000'000;
  return Identity{status.st_ino, status.st_size,
                  status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec};
}

std::filesystem::path log_at(const std::filesystem::path& run_folder, const record::LogPlace& place) {
  return record::RunPaths{run_folder}.events() / place.file;
}

Json json_of(const record::LogPlace& place, const Identity& identity) {
  return {{"file", place.file},
          {"attempt", place.attempt},
          {"offset", place.offset},
          {"lines", place.lines},
          {"given", std::vector<uint8_t>(place.given.begin(), place.given.end())},
          {"skips_line", place.skips_line},
          {"inode", identity.inode},
          {"modified", identity.modified}};
}

record::LogPlace place_of(const Json& json) {
  const auto given = json.at("given").get<std::vector<uint8_t>>();
  return {.attempt = json.at("attempt").get<int64_t>(),
          .file = json.at("file").get<std::string>(),
          .offset = json.at("offset").get<int64_t>(),
          .lines = json.at("lines").get<int64_t>(),
          .given = {given.begin(), given.end()},
          .skips_line = json.at("skips_line").get<bool>()};
}

bool is_same_log(const std::filesystem::path& run_folder, const record::LogPlace& place, const Json& json) {
  const auto now = identity_of(log_at(run_folder, place));
  if (!now || now->inode != json.at("inode").get<uint64_t>()) return false;
  return now->size > place.offset ||
         (now->size == place.offset && now->modified == json.at("modified").get<int64_t>());
}

// Calls visit(name, column) for each column, in one order.
void for_each_column(auto& track, const auto& visit) {
  visit("step", track.step);
  visit("epoch", track.epoch);
  visit("time", track.time);
  for (auto& [name, values] : track.values) visit(std::string(kValues) + name, values);
}

// The columns one after the other; equal ones once.
class ColumnList {
 public:
  Json add(std::string_view bytes) {
    const uint64_t hash = hash_of(bytes);
    const auto [found, is_new] = places_.try_emplace({hash, bytes.size()}, size_);
    if (is_new) {
      columns_.push_back(bytes);
      size_ += bytes.size();
    }
    return {{"place", found->second}, {"hash", hash}};
  }

  const std::vector<std::string_view>& columns() const { return columns_; }
  uint64_t size() const { return size_; }

 private:
  std::map<std::pair<uint64_t, size_t>, uint64_t> places_;
  std::vector<std::string_view> columns_;
  uint64_t size_ = 0;
};

Json head_of(const LogContents& contents, ColumnList& columns) {
  Json head{{"attempt", contents.attempt},
            {"curve_attempt", contents.curve_attempt},
            {"attempt_began", contents.attempt_began},
            {"before_attempt", contents.before_attempt},
            {"last_time", contents.last_time},
            {"steps_per_epoch", contents.steps_per_epoch},
            {"said", contents.said},
            {"newest_line", contents.newest_line},
            {"tracks", Json::array()}};
  for (const auto& [kind, track] : contents.tracks) {
    Json json{{"kind", kind}, {"points", track.step.size()}, {"columns", Json::object()}};
    for_each_column(track, [&](const std::string& name, const auto& column) {
      json["columns"][name] = columns.add(bytes_of(column));
    });
    head["tracks"].push_back(std::move(json));
  }
  return head;
}

LogContents contents_of(const Json& head) {
  LogContents contents{.tracks = {},
                       .attempt = head.at("attempt").get<int64_t>(),
                       .curve_attempt = head.at("curve_attempt").get<int64_t>(),
                       .attempt_began = head.at("attempt_began").get<double>(),
                       .before_attempt = head.at("before_attempt").get<double>(),
                       .last_time = head.at("last_time").get<double>(),
                       .steps_per_epoch = head.at("steps_per_epoch").get<int64_t>(),
                       .said = head.at("said"),
                       .newest_line = head.at("newest_line").get<std::string>()};
  for (const Json& json : head.at("tracks")) {
    Track& track = contents.tracks[json.at("kind").get<std::string>()];
    for (const auto& [name, column] : json.at("columns").items()) {
      if (name.starts_with(kValues)) track.values[name.substr(kValues.size())];
    }
  }
  return contents;
}

// Nothing if the file is too short for one.
std::optional<std::vector<UnreadColumns::Column>> columns_of(const Json& head, int64_t from, uint64_t size) {
  std::vector<UnreadColumns::Column> columns;
  for (const Json& track : head.at("tracks")) {
    const auto points = track.at("points").get<uint64_t>();
    if (points > kMostPoints) return std::nullopt;
    for (const auto& [name, about] : track.at("columns").items()) {
      const auto place = about.at("place").get<uint64_t>();
      const uint64_t bytes = points * (name.starts_with(kValues) ? sizeof(float) : sizeof(double));
      if (place > size || bytes > size - place) return std::nullopt;
      columns.push_back({.kind = track.at("kind").get<std::string>(),
                         .name = name,
                         .points = points,
                         .place = from + static_cast<int64_t>(place),
                         .hash = about.at("hash").get<uint64_t>()});
    }
  }
  return columns;
}

// Whether it is whole. Columns of one track may be read at once.
bool read_column(const OpenFile& file, const UnreadColumns::Column& column, Track& track) {
  const auto read = [&](auto& values) {
    values.resize(column.points);
    const std::span<char> bytes = bytes_of(values);
    const size_t got = file.read_at(column.place, bytes);
    return got == bytes.size() && hash_of(std::string_view(bytes.data(), got)) == column.hash;
  };
  if (column.name == "step") return read(track.step);
  if (column.name == "epoch") return read(track.epoch);
  if (column.name == "time") return read(track.time);
  return read(track.values.at(column.name.substr(kValues.size())));
}

template <class Number>
std::string raw_text_of(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

// The oldest go first.
void remove_oldest(const std::filesystem::path& folder, const std::filesystem::path& kept) {
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::directory_entry>> files;
  std::error_code code;
  uintmax_t bytes = 0;
  std::filesystem::directory_iterator entries(folder, code);
  for (; !code && entries != std::filesystem::directory_iterator(); entries.increment(code)) {
    std::error_code missing;
    const auto size = entries->file_size(missing);
    if (missing) continue;
    bytes += size;
    if (entries->path() != kept) files.emplace_back(entries->last_write_time(missing), *entries);
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < files.size() && bytes > kMostIndexBytes; ++i) {
    std::error_code missing;
    bytes -= files[i].second.file_size(missing);
    std::filesystem::remove(files[i].second.path(), missing);
  }
}

}  // namespace

bool UnreadColumns::read(LogContents& contents, const std::string& kind,
                         const std::vector<std::string>& names) {
  bool is_whole = true;
  std::erase_if(columns_, [&](const Column& column) {
    if (column.kind != kind || std::find(names.begin(), names.end(), column.name) == names.end())
      return false;
    is_whole = is_whole && read_column(*file_, column, contents.tracks.at(kind));
    return true;
  });
  return is_whole;
}

bool UnreadColumns::read_all(LogContents& contents) {
  std::atomic<size_t> next = 0;
  std::atomic<bool> is_whole = true;
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < std::min(kReadingThreads, columns_.size()); ++i) {
      threads.emplace_back([&] {
        try {
          for (size_t at = next++; at < columns_.size() && is_whole; at = next++) {
            if (!read_column(*file_, columns_[at], contents.tracks.at(columns_[at].kind))) is_whole = false;
          }
        } catch (const std::exception&) {  // such as no memory
          is_whole = false;
        }
      });
    }
  }
  columns_.clear();
  file_.reset();
  return is_whole;
}

std::filesystem::path LogIndexes::default_folder() {
  const std::filesystem::path folder = lockstep_cache_folder();
  return folder.empty() ? folder : folder / "curves";
}

std::filesystem::path LogIndexes::file_of(const std::filesystem::path& run_folder) const {
  std::error_code code;
  const std::filesystem::path whole = std::filesystem::canonical(run_folder, code);
  if (folder_.empty() || code) return {};
  return folder_ / (as_hex(hash_of(whole.native())) + ".curves");
}

std::optional<LogIndex> LogIndexes::read(const std::filesystem::path& run_folder) const {
  const std::filesystem::path path = file_of(run_folder);
  if (path.empty()) return std::nullopt;
  try {
    OpenFile file(path, O_RDONLY);
    const auto size = static_cast<uint64_t>(std::filesystem::file_size(path));
    std::string magic(kMagic.size(), '\0');
    std::array<uint64_t, 2> numbers{};  // size and hash of the head
    const uint64_t before = magic.size() + sizeof(numbers);
    if (size < before || file.read_at(0, magic) < magic.size() || magic != kMagic) return std::nullopt;
    file.read_at(static_cast<int64_t>(magic.size()), bytes_of(numbers));
    if (numbers[0] > kMostHead || numbers[0] > size - before) return std::nullopt;
    std::string text(numbers[0], '\0');
    if (file.read_at(static_cast<int64_t>(before), text) < text.size() || hash_of(text) != numbers[1])
      return std::nullopt;
    const Json head = parse_json(text);
    LogIndex index;
    for (const Json& json : head.at("places")) {
      index.places.push_back(place_of(json));
      if (!is_same_log(run_folder, index.places.back(), json)) return std::nullopt;
    }
    index.contents = contents_of(head);
    auto columns = columns_of(head, static_cast<int64_t>(before + text.size()), size - before - text.size());
    if (!columns) return std::nullopt;
    index.columns = UnreadColumns(std::move(file), *std::move(columns));
    std::error_code code;
    std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now(), code);
    return index;
  } catch (const Error&) {  // there is none
  } catch (const Json::exception&) {
  } catch (const std::filesystem::filesystem_error&) {
  }
  return std::nullopt;
}

void LogIndexes::write(const std::filesystem::path& run_folder, const std::vector<record::LogPlace>& places,
                       const LogContents& contents) const {
  const std::filesystem::path path = file_of(run_folder);
  if (path.empty()) return;
  try {
    ColumnList columns;
    Json head = head_of(contents, columns);
    head["places"] = Json::array();
    for (const record::LogPlace& place : places) {
      const auto identity = identity_of(log_at(run_folder, place));
      if (!identity) return;
      head["places"].push_back(json_of(place, *identity));
    }
    const std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace);
    make_folders(folder_);
    if (columns.size() > kMostIndexBytes ||
        std::filesystem::space(folder_).available / kLeastFree < columns.size())
      return;
    write_aside(path, [&](const std::filesystem::path& neighbour) {
      OpenFile file(neighbour, O_WRONLY | O_CREAT | O_TRUNC);
      file.write(std::string(kMagic) + raw_text_of(uint64_t{text.size()}) + raw_text_of(hash_of(text)) +
                 text);
      for (const std::string_view column : columns.columns()) file.write(column);
      file.close();
    });
    remove_oldest(folder_, path);
  } catch (const Error&) {  // see the class
  } catch (const std::filesystem::filesystem_error&) {
  }
}

}  // namespace lockstep::studio
