#include "lockstep/io/internal/archive_index.h"

#include <algorithm>
#include <memory>
#include <new>

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
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

  ArchiveIndex run() {
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
    ArchiveItem item;
    // Names in pax archives are UTF-8. libarchive returns them with the first function only if the locale can
    // represent them.
    item.path = path_in_archive(text(archive_entry_pathname(entry), archive_entry_pathname_utf8(entry)),
                                file_.path());
    if (item.path.empty()) return;
    item.link = path_in_archive(text(archive_entry_hardlink(entry), archive_entry_hardlink_utf8(entry)),
                                file_.path());
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

  void place(archive_entry* entry, ArchiveItem& item) {
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
                     [](const ArchiveItem& a, const ArchiveItem& b) { return a.path < b.path; });
    const auto kept =
        std::unique(items.rbegin(), items.rend(),
                    [](const ArchiveItem& a, const ArchiveItem& b) { return a.path == b.path; });
    items.erase(items.begin(), kept.base());
  }

  void resolve_links() {
    for (ArchiveItem& item : index_.items) {
      if (item.link.empty()) continue;
      const auto at = index_.from(item.link);
      const bool found = at != index_.items.end() && at->path == item.link && at->link.empty() &&
                         at->kind == Listed::Kind::file;
      if (found) item.kind = Listed::Kind::file, item.size = at->size, item.offset = at->offset;
    }
    for (ArchiveItem& item : index_.items) std::string().swap(item.link);
  }

  const OpenArchive& file_;
  const StoreOptions& options_;
  std::unique_ptr<archive, FreeArchive> reader_;
  ArchiveIndex index_;
  int64_t taken_ = 0;
  int64_t end_ = 0;  // end of the last file's blocks in an uncompressed archive; 0: unknown
};

}  // namespace

std::string path_in_archive(std::string_view name, const std::string& holder) {
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

OpenArchive::OpenArchive(const std::string& path) : name_(path), file_(path, O_RDONLY) {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw Error(ErrorCode::io, "cannot read \"" + path + "\": not a file");
  bytes_ = status.st_size;
  changed_ = time_of_change(status);
}

std::vector<ArchiveItem>::const_iterator ArchiveIndex::from(std::string_view path) const {
  return std::lower_bound(
      items.begin(), items.end(), path,
      [](const ArchiveItem& item, std::string_view wanted) { return item.path < wanted; });
}

ArchiveIndex index_archive(const OpenArchive& archive, const StoreOptions& options) {
  return Indexing(archive, options).run();
}

}  // namespace lockstep::io
