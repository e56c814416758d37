// Reads and writes tar archives, also compressed ones, with libarchive. One pass builds an index. A file is
// then read at its offset, or from memory if the archive is compressed.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <unordered_map>
#include <vector>

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/io/internal/part_file.h"
#include "lockstep/io/internal/stores.h"

namespace lockstep::io {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;
constexpr size_t kMostNameBytes = 4096;  // the system's limit for a path
constexpr int64_t kBlockBytes = 512;     // block size of tar
constexpr int64_t kItemBytes = 128;      // approximate memory of an item without its name and content

struct FreeArchive {
  void operator()(archive* reader) const { archive_read_free(reader); }
};

struct Item {
  std::string path;
  int64_t size = 0;
  int64_t offset = 0;  // in the archive's file, or the index into `contents`
  Listed::Kind kind = Listed::Kind::file;
  std::string link;  // the target of a hard link that is not resolved yet
};

struct Index {
  std::vector<Item> items;            // sorted by path; paths are unique
  std::vector<std::string> contents;  // used for compressed archives
};

// A name as a path below an archive's root; `holder` is the archive. The depth is limited because readers
// keep one folder per part.
std::string cleaned(std::string_view name, const std::string& holder) {
  if (name.size() <= kMostNameBytes) {
    const std::vector<std::string> parts = safe_parts(name, holder);
    if (parts.size() <= kMostDepth) return join(parts, "/");
  }
  constexpr size_t kShownBytes = 60;
  throw Error(ErrorCode::corrupt_data,
              "\"" + holder + "\" contains a name with more than " + std::to_string(kMostNameBytes) +
                  " bytes or " + std::to_string(kMostDepth) + " parts; it begins with \"" +
                  std::string(name.substr(0, kShownBytes)) + "\"",
              "create the archive again with shorter names");
}

class OpenArchive {
 public:
  explicit OpenArchive(const std::string& path) : name_(path), file_(path, O_RDONLY) {
    struct stat status {};
    if (::fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode))
      throw Error(ErrorCode::io, "cannot read \"" + path + "\": not a file");
    bytes_ = status.st_size;
    changed_ = time_of_change(status);
  }

  const OpenFile& file() const { return file_; }
  int64_t bytes() const { return bytes_; }
  int64_t changed() const { return changed_; }
  const std::string& path() const { return name_; }

 private:
  const std::string name_;
  const OpenFile file_;
  int64_t bytes_ = 0;
  int64_t changed_ = 0;  // ns since 1970
};

class Indexing {
 public:
  Indexing(const OpenArchive& file, const StoreOptions& options)
      : file_(file), options_(options), reader_(archive_read_new()) {
    if (reader_ == nullptr) throw std::bad_alloc();
    archive_read_support_format_tar(reader_.get());
    archive_read_support_filter_gzip(reader_.get());
    archive_read_support_filter_bzip2(reader_.get());
    archive_read_support_filter_xz(reader_.get());
    archive_read_support_filter_zstd(reader_.get());
    if (archive_read_open_fd(reader_.get(), file.file().get(), kReadBytes) != ARCHIVE_OK) damaged();
  }

  Index run() {
    archive_entry* entry = nullptr;
    while (true) {
      const int status = archive_read_next_header(reader_.get(), &entry);
      if (status == ARCHIVE_EOF) break;
      if (status != ARCHIVE_OK && status != ARCHIVE_WARN) damaged();
      end_ = 0;
      add(entry);
    }
    check_end();
    sort();
    resolve_links();
    return std::move(index_);
  }

 private:
  [[noreturn]] void damaged() const {
    const char* why = archive_error_string(reader_.get());
    throw Error(
        ErrorCode::corrupt_data,
        "cannot read the archive \"" + file_.path() + "\": " + (why == nullptr ? "it is damaged" : why),
        "download or create the archive again");
  }

  void take(int64_t bytes) {
    taken_ += bytes;
    if (taken_ <= options_.most_memory) return;
    throw Error(ErrorCode::out_of_memory,
                "cannot keep the archive \"" + file_.path() +
                    "\" in memory: unpacked, it has more than the limit of " + as_bytes(options_.most_memory),
                "unpack it with lockstep copy " + file_.path() +
                    " FOLDER, decompress it to a .tar, or raise --memory-share");
  }

  static std::string text(const char* bytes, const char* utf8) {
    return bytes != nullptr ? bytes : utf8 != nullptr ? utf8 : "";
  }

  void add(archive_entry* entry) {
    Item item;
    // Names in pax archives are UTF-8. libarchive returns them with the first function only if the locale can
    // represent them.
    item.path =
        cleaned(text(archive_entry_pathname(entry), archive_entry_pathname_utf8(entry)), file_.path());
    if (item.path.empty()) return;
    item.link =
        cleaned(text(archive_entry_hardlink(entry), archive_entry_hardlink_utf8(entry)), file_.path());
    take(kItemBytes + static_cast<int64_t>(item.path.size() + item.link.size()));
    const auto type = archive_entry_filetype(entry);
    if (!item.link.empty()) {
      item.kind = Listed::Kind::other;
    } else if (type == AE_IFDIR) {
      item.kind = Listed::Kind::folder;
    } else if (type != AE_IFREG || archive_entry_sparse_count(entry) > 0) {
      item.kind = Listed::Kind::other;
    } else {
      place(entry, item);
    }
    index_.items.push_back(std::move(item));
  }

  void place(archive_entry* entry, Item& item) {
    item.size = archive_entry_size(entry);
    if (item.size < 0) damaged();
    // Known only after the first header.
    if (archive_filter_code(reader_.get(), 0) == ARCHIVE_FILTER_NONE) {
      item.offset = archive_filter_bytes(reader_.get(), -1);
      if (item.offset < 0 || item.size > file_.bytes() - item.offset) {
        throw Error(ErrorCode::corrupt_data,
                    "the archive \"" + file_.path() + "\" ends inside \"" + item.path + "\"",
                    "download or create the archive again");
      }
      end_ = item.offset + (item.size + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
      return;
    }
    item.offset = static_cast<int64_t>(index_.contents.size());
    index_.contents.push_back(unpacked(item.size));
  }

  // libarchive accepts the end of the file as the end of the archive, but a complete tar ends with blocks of
  // zeros. Without this check, the missing files would go unnoticed.
  void check_end() const {
    if (end_ == 0 || file_.bytes() - end_ >= kBlockBytes) return;
    throw Error(ErrorCode::corrupt_data,
                "the archive \"" + file_.path() + "\" ends without its end mark after \"" +
                    index_.items.back().path + "\": it is incomplete",
                "download or create the archive again; if it is complete, unpack it");
  }

  // The buffer grows as bytes arrive, because the size in an entry's header cannot be trusted.
  std::string unpacked(int64_t size) {
    std::string content;
    std::string piece(kReadBytes, '\0');
    while (true) {
      const la_ssize_t got = archive_read_data(reader_.get(), piece.data(), piece.size());
      if (got < 0) damaged();
      if (got == 0) break;
      take(got);
      content.append(piece, 0, static_cast<size_t>(got));
    }
    if (static_cast<int64_t>(content.size()) != size) damaged();
    content.shrink_to_fit();
    return content;
  }

  // If a path occurs twice, the last entry counts, as in tar.
  void sort() {
    auto& items = index_.items;
    std::stable_sort(items.begin(), items.end(),
                     [](const Item& a, const Item& b) { return a.path < b.path; });
    const auto kept = std::unique(items.rbegin(), items.rend(),
                                  [](const Item& a, const Item& b) { return a.path == b.path; });
    items.erase(items.begin(), kept.base());
  }

  void resolve_links() {
    for (Item& item : index_.items) {
      if (item.link.empty()) continue;
      const auto at = std::lower_bound(index_.items.begin(), index_.items.end(), item.link,
                                       [](const Item& a, const std::string& path) { return a.path < path; });
      const bool found = at != index_.items.end() && at->path == item.link && at->link.empty() &&
                         at->kind == Listed::Kind::file;
      if (found) item.kind = Listed::Kind::file, item.size = at->size, item.offset = at->offset;
    }
    for (Item& item : index_.items) std::string().swap(item.link);
  }

  const OpenArchive& file_;
  const StoreOptions& options_;
  std::unique_ptr<archive, FreeArchive> reader_;
  Index index_;
  int64_t taken_ = 0;
  int64_t end_ = 0;  // end of the last file's blocks in an uncompressed archive; 0: unknown
};

class ArchiveStore : public ByteStore {
 public:
  ArchiveStore(const ArchivePlace& place, const StoreOptions& options)
      : file_(place.file),
        name_(place.inside.empty() ? place.file : place.file + "/" + place.inside),
        inside_(place.inside.empty() ? "" : place.inside + "/"),
        index_(Indexing(file_, options).run()) {
    const auto begin =
        std::lower_bound(index_.items.begin(), index_.items.end(), inside_,
                         [](const Item& item, const std::string& path) { return item.path < path; });
    if (!inside_.empty() && (begin == index_.items.end() || !begin->path.starts_with(inside_))) {
      throw Error(ErrorCode::not_found,
                  "the archive \"" + place.file + "\" has no folder \"" + place.inside + "\"",
                  "tar -tf lists its contents");
    }
  }

  const std::string& name() const override { return name_; }
  std::string kind() const override { return "tar archive"; }

  void list(Sizes, const Visit& visit) const override {
    for (const Item& item : index_.items) {
      if (!item.path.starts_with(inside_) || item.path.size() == inside_.size()) continue;
      visit({std::string_view(item.path).substr(inside_.size()), item.size, item.kind,
             item.kind == Listed::Kind::file ? std::optional(file_.changed()) : std::nullopt});
    }
  }

  std::optional<int64_t> size_of(std::string_view path) const override {
    const Item* item = look_for(inside_ + std::string(path));
    if (item != nullptr && item->kind == Listed::Kind::other)
      throw Error(ErrorCode::io, "cannot read \"" + full({path}) + "\": not a file");
    return item == nullptr || item->kind == Listed::Kind::folder ? std::nullopt : std::optional(item->size);
  }

  std::string read(FileName file, int64_t most_bytes) const override {
    const Item& item = find(file);
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
    const Item& item = find(file);
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

  const Item* look_for(const std::string& path) const {
    const auto at =
        std::lower_bound(index_.items.begin(), index_.items.end(), path,
                         [](const Item& item, const std::string& wanted) { return item.path < wanted; });
    return at == index_.items.end() || at->path != path ? nullptr : &*at;
  }

  const Item& find(FileName file) const {
    const std::string path = inside_ + std::string(file.path);
    const Item* item = look_for(path);
    if (item != nullptr && item->kind == Listed::Kind::file) return *item;
    throw Error(ErrorCode::not_found, "the archive \"" + file_.path() + "\" has no file \"" + path + "\"");
  }

  const OpenArchive file_;
  const std::string name_;
  const std::string inside_;
  const Index index_;
};

// ---------------------------------------------------------------- writing

struct FreeWriter {
  void operator()(archive* writer) const { archive_write_free(writer); }
};
struct FreeEntry {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

class ArchiveSink : public ByteSink {
 public:
  explicit ArchiveSink(std::string path) : path_(std::move(path)), writer_(archive_write_new()) {
    if (writer_ == nullptr) throw std::bad_alloc();
    const std::string name = lower(path_);
    check(archive_write_set_format_pax_restricted(writer_.get()));
    if (!name.ends_with(".tar")) {
      if (!name.ends_with(".gz") && !name.ends_with(".tgz")) {
        throw Error(ErrorCode::invalid_option,
                    "cannot write \"" + path_ + "\": archives of this kind can only be read",
                    "use a name that ends in .tar or .tar.gz");
      }
      check(archive_write_add_filter_gzip(writer_.get()));
    }
    const std::string folder = std::filesystem::path(path_).parent_path().string();
    remove_left_parts(folder.empty() ? "." : folder);
    part_.emplace(path_);
    check(archive_write_open_fd(writer_.get(), part_->file().get()));
  }

  const std::string& name() const override { return path_; }
  std::shared_ptr<const ByteStore> present() const override { return nullptr; }
  int64_t parallel_writes() const override { return 1; }
  std::unique_ptr<FileWriter> create(std::string_view path, int64_t size) override;

  void finish() override {
    check(archive_write_close(writer_.get()));
    part_->file().sync();
    part_->finish();
  }

  void check(int status) const {
    if (status == ARCHIVE_OK || status == ARCHIVE_WARN) return;
    if (const int error = archive_errno(writer_.get()); error > 0) throw errno_error(error, "write", path_);
    throw Error(ErrorCode::io,
                "cannot write \"" + path_ + "\": " + std::string(archive_error_string(writer_.get())));
  }
  archive* writer() const { return writer_.get(); }

 private:
  const std::string path_;
  std::optional<PartFile> part_;  // outlives the writer, which may still write when it is destroyed
  std::unique_ptr<archive, FreeWriter> writer_;
};

// An archive that was cut short is unfinished too.
class ArchiveWriter : public FileWriter {
 public:
  explicit ArchiveWriter(ArchiveSink& sink) : sink_(sink) {}
  void append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const la_ssize_t written = archive_write_data(sink_.writer(), bytes.data(), bytes.size());
      if (written <= 0) sink_.check(written < 0 ? static_cast<int>(written) : ARCHIVE_FATAL);
      bytes.remove_prefix(static_cast<size_t>(std::max<la_ssize_t>(written, 0)));
    }
  }
  void finish() override { sink_.check(archive_write_finish_entry(sink_.writer())); }

 private:
  ArchiveSink& sink_;
};

std::unique_ptr<FileWriter> ArchiveSink::create(std::string_view path, int64_t size) {
  const std::unique_ptr<archive_entry, FreeEntry> entry(archive_entry_new());
  if (entry == nullptr) throw std::bad_alloc();
  archive_entry_set_pathname(entry.get(), cleaned(path, "the source").c_str());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  archive_entry_set_size(entry.get(), size);
  check(archive_write_header(writer_.get(), entry.get()));
  return std::make_unique<ArchiveWriter>(*this);
}

}  // namespace

std::string without_archive_ending(const std::string& name) {
  for (const std::string_view ending : {".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"}) {
    if (name.size() > ending.size() && lower(name).ends_with(ending))
      return name.substr(0, name.size() - ending.size());
  }
  return name;
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

std::unique_ptr<ByteSink> open_archive_sink(const std::string& where) {
  return std::make_unique<ArchiveSink>(where);
}

}  // namespace lockstep::io
