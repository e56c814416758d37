// The files that a path names, in any store: listed once, for all kinds of sources.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/io/byte_store.h"

namespace lockstep::data {

struct SourceKind;

/// corrupt_data for a file that was downloaded: `cannot read "shown": why`.
Error damaged_file(const std::string& shown, const std::string& why);

/// Whether a name is not the user's data: it begins with a dot, or it is what systems leave in
/// folders, in upper or lower case.
bool is_hidden(std::string_view name);

/// The listing of a folder, archive or address, without hidden names and what is below them; or one file,
/// which is then the only name.
class Files {
 public:
  /// A listed name: io::Listed, with its path in a text shared by all names, because there may be millions.
  struct Name {
    uint64_t offset = 0;  ///< offset of the path in that text
    int64_t bytes = -1;
    std::optional<int64_t> changed = {};
    uint32_t length = 0;
    io::Listed::Kind kind = io::Listed::Kind::file;
  };

  /// `kinds` are the kinds that will look at the files. A file that one of them reads may be named directly,
  /// and the folders in a folder are not listed if a kind that does not read them finds what it needs.
  /// Without kinds, `where` is a folder and is listed completely. Throws as io::open_store and
  /// ByteStore::list do.
  Files(const std::string& where, const io::StoreOptions& options, std::span<const SourceKind> kinds);

  /// The complete listing of the folder of the one file that was named. It is made by the first call, whose
  /// result the next ones return. One thread. Throws as ByteStore::list does.
  Files& folder_of_file() const;

  const std::shared_ptr<const io::ByteStore>& store() const { return store_; }
  bool one_file() const { return one_file_; }
  /// The name of the path for messages, and of one of its files.
  const std::string& root() const { return root_; }
  std::string shown(std::string_view path) const { return prefix_ + std::string(path); }
  /// `kind` for Source::kind, with the store's kind: "IDX", "IDX, s3".
  std::string described(const char* kind) const;

  std::span<const Name> names() const { return names_; }
  io::Listed listed(const Name& name) const { return {path(name), name.bytes, name.kind, name.changed}; }
  std::string_view path(const Name& name) const {
    return std::string_view(paths_).substr(name.offset, name.length);
  }
  /// The entries directly in the folder, of any kind, for which wanted(path) is true, in order.
  std::vector<std::string> at_root(const std::function<bool(std::string_view path)>& wanted) const;
  /// The text with all paths, to which the names' offsets refer.
  std::string take_paths() { return std::move(paths_); }

  /// Whether the folder directly contains such a name; if one file was named, the store is asked.
  bool has(std::string_view path) const {
    return look_for(path) != nullptr || (one_file_ && store_->size_of(path).has_value());
  }
  bool has_folder(std::string_view path) const;
  /// Whether the folder directly contains a file of such a name, and not a pipe or a device.
  bool is_file(std::string_view path) const;
  /// Size of a file directly in the folder. Throws not_found; io if it is not a file.
  int64_t bytes_of(std::string_view path) const;
  /// The content of a file directly in the folder. Throws as ByteStore::read.
  std::string read(std::string_view path, int64_t most_bytes) const;

 private:
  explicit Files(std::shared_ptr<const io::ByteStore> store);
  bool open_one_file(const std::string& where, const io::StoreOptions& options,
                     std::span<const SourceKind> kinds);
  void list(std::span<const SourceKind> kinds);
  void add(const io::Listed& listed);
  const Name* look_for(std::string_view path) const;

  std::shared_ptr<const io::ByteStore> store_;
  bool one_file_ = false;
  std::string root_, prefix_;
  std::string paths_;
  std::vector<Name> names_;
  std::vector<size_t> at_root_;            // indices into names_
  mutable std::unique_ptr<Files> folder_;  // of folder_of_file
};

}  // namespace lockstep::data
