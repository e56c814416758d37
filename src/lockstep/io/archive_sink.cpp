// Writes tar archives, also with gzip, with libarchive.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include <archive.h>
#include <archive_entry.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/io/internal/archive_index.h"
#include "lockstep/io/internal/part_file.h"
#include "lockstep/io/internal/stores.h"

namespace lockstep::io {
namespace {

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
  archive_entry_set_pathname(entry.get(), path_in_archive(path, "the source").c_str());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0644);
  archive_entry_set_size(entry.get(), size);
  check(archive_write_header(writer_.get(), entry.get()));
  return std::make_unique<ArchiveWriter>(*this);
}

}  // namespace

std::unique_ptr<ByteSink> open_archive_sink(const std::string& where) {
  return std::make_unique<ArchiveSink>(where);
}

}  // namespace lockstep::io
