// Reads tar archives, also compressed ones, with libarchive. One pass builds an index. A file is then read at
// its offset, or from memory if the archive is compressed.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/io/address.h"
#include "lockstep/io/internal/archive_index.h"
#include "lockstep/io/internal/stores.h"

namespace lockstep::io {
namespace {

class ArchiveStore : public ByteStore {
 public:
  ArchiveStore(const ArchivePlace& place, const StoreOptions& options)
      : file_(place.file),
        name_(place.inside.empty() ? place.file : place.file + "/" + place.inside),
        inside_(place.inside.empty() ? "" : place.inside + "/"),
        index_(index_archive(file_, options)) {
    const auto begin = index_.from(inside_);
    if (!inside_.empty() && (begin == index_.items.end() || !begin->path.starts_with(inside_))) {
      throw Error(ErrorCode::not_found,
                  "the archive \"" + place.file + "\" has no folder \"" + place.inside + "\"",
                  "tar -tf lists its contents");
    }
  }

  const std::string& name() const override { return name_; }
  std::string kind() const override { return "tar archive"; }

  void list(Sizes, const Visit& visit) const override {
    for (const ArchiveItem& item : index_.items) {
      if (!item.path.starts_with(inside_) || item.path.size() == inside_.size()) continue;
      visit({std::string_view(item.path).substr(inside_.size()), item.size, item.kind,
             item.kind == Listed::Kind::file ? std::optional(file_.changed()) : std::nullopt});
    }
  }

  std::optional<int64_t> size_of(std::string_view path) const override {
    const ArchiveItem* item = look_for(inside_ + std::string(path));
    if (item != nullptr && item->kind == Listed::Kind::other)
      throw Error(ErrorCode::io, "cannot read \"" + full({path}) + "\": not a file");
    return item == nullptr || item->kind == Listed::Kind::folder ? std::nullopt : std::optional(item->size);
  }

  std::string read(FileName file, int64_t most_bytes) const override {
    const ArchiveItem& item = find(file);
    if (item.size > most_bytes)
      throw Error(ErrorCode::corrupt_data, "\"" + full(file) + "\" has " + as_bytes(item.size) +
                                               ", more than the " + as_bytes(most_bytes) +
                                               " allowed for this kind of file");
    std::string bytes(static_cast<size_t>(item.size), '\0');
    if (read_at(file, 0, bytes) != bytes.size())
      throw Error(ErrorCode::corrupt_data,
                  "\"" + full(file) + "\" cannot be read completely, because the archive has changed",
                  "start the command again");
    return bytes;
  }

  size_t read_at(FileName file, int64_t offset, std::span<char> destination) const override {
    const ArchiveItem& item = find(file);
    const auto count = static_cast<size_t>(
        std::clamp<int64_t>(item.size - offset, 0, static_cast<int64_t>(destination.size())));
    if (count == 0) return 0;
    if (!index_.contents.empty()) {
      index_.contents[static_cast<size_t>(item.offset)].copy(destination.data(), count,
                                                             static_cast<size_t>(offset));
      return count;
    }
    return file_.file().read_at(item.offset + offset, destination.first(count));
  }

  int64_t parallel_reads() const override { return 0; }

 private:
  std::string full(FileName file) const { return name_ + "/" + std::string(file.path); }

  const ArchiveItem* look_for(const std::string& path) const {
    const auto at = index_.from(path);
    return at == index_.items.end() || at->path != path ? nullptr : &*at;
  }

  const ArchiveItem& find(FileName file) const {
    const std::string path = inside_ + std::string(file.path);
    const ArchiveItem* item = look_for(path);
    if (item != nullptr && item->kind == Listed::Kind::file) return *item;
    throw Error(ErrorCode::not_found, "the archive \"" + file_.path() + "\" has no file \"" + path + "\"");
  }

  const OpenArchive file_;
  const std::string name_;
  const std::string inside_;
  const ArchiveIndex index_;
};

}  // namespace

std::string without_archive_ending(const std::string& name) {
  for (const std::string_view ending : {".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"}) {
    if (name.size() > ending.size() && lower(name).ends_with(ending))
      return name.substr(0, name.size() - ending.size());
  }
  return name;
}

std::string short_name(const std::string& where) {
  std::filesystem::path place = public_name(where);
  if (!is_address(where)) place = std::filesystem::absolute(place).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();  // of "." and "plants/"
  return without_archive_ending(place.filename().string());
}

bool is_archive_name(std::string_view name) {
  return without_archive_ending(std::string(name)).size() != name.size();
}

ArchivePlace archive_place(const std::string& where) {
  std::error_code code;
  for (size_t end = where.find('/', 1);; end = where.find('/', end + 1)) {
    const std::string file = where.substr(0, end);
    if (is_archive_name(file) && std::filesystem::is_regular_file(file, code)) {
      return {file, end == std::string::npos ? "" : join(safe_parts(where.substr(end), where), "/")};
    }
    if (end == std::string::npos) return {};
  }
}

bool names_archive(const std::string& where) { return !archive_place(where).file.empty(); }

std::shared_ptr<const ByteStore> open_archive(const std::string& where, const StoreOptions& options) {
  return std::make_shared<ArchiveStore>(archive_place(where), options);
}

}  // namespace lockstep::io
