#include "lockstep/data/internal/files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/internal/kinds.h"
#include "lockstep/io/address.h"

namespace lockstep::data {
namespace {

bool any_part_is_hidden(std::string_view path) {
  for (size_t begin = 0, end = 0; end != std::string_view::npos; begin = end + 1) {
    end = path.find('/', begin);
    if (is_hidden(path.substr(begin, end - begin))) return true;
  }
  return false;
}

bool is_folder(const std::string& where) {
  std::error_code code;
  const auto status = std::filesystem::status(where, code);
  if (!std::filesystem::exists(status)) throw errno_error(code ? code.value() : ENOENT, "open", where);
  return std::filesystem::is_directory(status);
}

}  // namespace

Error damaged_file(const std::string& shown, const std::string& why) {
  return {ErrorCode::corrupt_data, "cannot read \"" + shown + "\": " + why, "download the file again"};
}

bool is_hidden(std::string_view name) {
  // Windows, macOS, Linux, and Synology, whose servers keep small pictures of each file in a folder named
  // after it.
  constexpr std::array<std::string_view, 9> kNames{
      "thumbs.db", "ehthumbs.db", "desktop.ini", "$recycle.bin", "system volume information",
      "__macosx",  "icon\r",      "lost+found",  "@eadir"};
  return name.starts_with('.') || std::any_of(kNames.begin(), kNames.end(), [&](std::string_view known) {
           return known.size() == name.size() && known == lower(name);
         });
}

Files::Files(const std::string& where, const io::StoreOptions& options, std::span<const SourceKind> kinds) {
  io::refuse_secrets(where);
  if (!kinds.empty() && open_one_file(where, options, kinds)) return;
  *this = Files(io::open_store(where, options));
  list(kinds);
}

Files::Files(std::shared_ptr<const io::ByteStore> store)
    : store_(std::move(store)), root_(store_->name()), prefix_(root_ + "/") {}

Files& Files::folder_of_file() const {
  if (!folder_) {
    std::unique_ptr<Files> folder(new Files(store_->name().empty() ? io::open_store(".") : store_));
    folder->list({});
    folder_ = std::move(folder);
  }
  return *folder_;
}

// An archive or a server is asked only for names that data files can have.
bool Files::open_one_file(const std::string& where, const io::StoreOptions& options,
                          std::span<const SourceKind> kinds) {
  const auto [folder, name] = io::folder_and_name(where);
  const bool local = !io::is_address(where) && !io::names_archive(where);
  if (local ? is_folder(where)
            : std::none_of(kinds.begin(), kinds.end(), [&name = name](const SourceKind& kind) {
                return kind.is_file_name != nullptr && kind.is_file_name(name);
              }))
    return false;
  auto store = io::open_store(folder, options);
  const std::optional<int64_t> bytes = local ? -1 : store->size_of(name);
  if (!bytes) return false;
  store_ = std::move(store);
  one_file_ = true;
  prefix_ = local ? folder : store_->name() + "/";
  root_ = shown(name);
  add({.path = name, .size = *bytes});
  return true;
}

void Files::list(std::span<const SourceKind> kinds) {
  bool all_files_known = false, enough = false;  // for the files in the folder itself
  store_->list(io::Sizes::if_known, [&](const io::Listed& listed) {
    if (any_part_is_hidden(listed.path)) return false;
    if (listed.kind == io::Listed::Kind::folder && !all_files_known) {
      all_files_known = true;
      enough = std::any_of(kinds.begin(), kinds.end(),
                           [&](const SourceKind& kind) { return !kind.reads_below && kind.fits(*this); });
    }
    add(listed);
    return !enough;
  });
}

void Files::add(const io::Listed& listed) {
  if (listed.path.find('/') == std::string_view::npos) at_root_.push_back(names_.size());
  names_.push_back(
      {paths_.size(), listed.size, listed.changed, static_cast<uint32_t>(listed.path.size()), listed.kind});
  paths_ += listed.path;
}

const Files::Name* Files::look_for(std::string_view wanted) const {
  const auto at = std::find_if(at_root_.begin(), at_root_.end(),
                               [&](size_t place) { return path(names_[place]) == wanted; });
  return at == at_root_.end() ? nullptr : &names_[*at];
}

bool Files::has_folder(std::string_view path) const {
  const Name* name = look_for(path);
  return name != nullptr && name->kind == io::Listed::Kind::folder;
}

bool Files::is_file(std::string_view path) const {
  const Name* name = look_for(path);
  return name != nullptr && name->kind == io::Listed::Kind::file;
}

std::string Files::described(const char* kind) const {
  return store_->kind() == "folder" ? kind : std::string(kind) + ", " + store_->kind();
}

std::vector<std::string> Files::at_root(const std::function<bool(std::string_view path)>& wanted) const {
  std::vector<std::string> found;
  for (const size_t place : at_root_) {
    if (wanted(path(names_[place]))) found.emplace_back(path(names_[place]));
  }
  std::sort(found.begin(), found.end());
  return found;
}

int64_t Files::bytes_of(std::string_view path) const {
  const Name* name = look_for(path);
  if (has_folder(path)) throw Error(ErrorCode::io, "cannot read \"" + shown(path) + "\": not a file");
  if (name != nullptr && name->kind == io::Listed::Kind::file && name->bytes >= 0) return name->bytes;
  const std::optional<int64_t> bytes = name != nullptr || one_file_ ? store_->size_of(path) : std::nullopt;
  if (!bytes) throw errno_error(ENOENT, "open", shown(path));
  return *bytes;
}

std::string Files::read(std::string_view path, int64_t most_bytes) const {
  const Name* name = look_for(path);
  return store_->read({path, name == nullptr ? -1 : name->bytes}, most_bytes);
}

}  // namespace lockstep::data
