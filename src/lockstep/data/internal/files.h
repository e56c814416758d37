// The files that a path names, wherever they lie: listed once, for every kind of source to look at.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/io/byte_store.h"

namespace lockstep::data {

struct SourceKind;

/// Whether a name is nothing of the user's: it begins with a dot, or systems leave such files in folders.
bool is_hidden(std::string_view name);

/// A folder, archive or address as it was listed, without hidden names and what lies below them; or one file,
/// which is then the only name.
class Files {
 public:
  /// A listed name: io::Listed with its path in a text that all names share, for there may be millions.
  struct Name {
    uint64_t offset = 0;  ///< of the path in that text
    int64_t bytes = -1;
    std::optional<int64_t> changed = {};
    uint32_t length = 0;
    io::Listed::Kind kind = io::Listed::Kind::file;
  };

  /// `kinds` will look: what they call a data file may be named by itself, and the folders in a folder are
  /// not listed where a kind that does not read them has what it needs. Without kinds `where` is a folder and
  /// listed whole. Throws as io::open_store and ByteStore::list.
  Files(const std::string& where, const io::StoreOptions& options, std::span<const SourceKind> kinds);

  const std::shared_ptr<const io::ByteStore>& store() const { return store_; }
  bool one_file() const { return one_file_; }
  /// What was named, for messages, and one of its files.
  const std::string& root() const { return root_; }
  std::string shown(std::string_view path) const { return prefix_ + std::string(path); }
  /// `kind` for Source::kind, with where it lies: "IDX", "IDX, s3".
  std::string described(const char* kind) const;

  std::span<const Name> names() const { return names_; }
  io::Listed listed(const Name& name) const { return {path(name), name.bytes, name.kind, name.changed}; }
  std::string_view path(const Name& name) const {
    return std::string_view(paths_).substr(name.offset, name.length);
  }
  /// Those that lie directly in the folder, whatever they are, and for which wanted(path), in order.
  std::vector<std::string> at_root(const std::function<bool(std::string_view path)>& wanted) const;
  /// All paths one after the other, where the names' offsets say.
  std::string take_paths() { return std::move(paths_); }

  /// Whether the folder directly holds such a name; beside one file that was named the store is asked.
  bool has(std::string_view path) const {
    return look_for(path) != nullptr || (one_file_ && store_->size_of(path).has_value());
  }
  /// Of a file that lies directly in the folder. Throws not_found; io for what is no file.
  int64_t bytes_of(std::string_view path) const;
  /// The whole of a file that lies directly in the folder. Throws as ByteStore::read.
  std::string read(std::string_view path, int64_t most_bytes) const;

 private:
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
  std::vector<size_t> at_root_;  // places in names_
};

}  // namespace lockstep::data
