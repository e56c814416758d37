// Object stores by Apache Arrow's file systems: implements io/object_store.h.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

#include <arrow/filesystem/api.h>
#include <arrow/filesystem/s3fs.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/config.h>
#include <arrow/util/thread_pool.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/object_store/failure.h"
#include "lockstep/object_store/google_key.h"
#include "lockstep/io/address.h"
#include "lockstep/io/object_store.h"

namespace lockstep::object_store {
namespace {

namespace fs = arrow::fs;

// Number of parallel requests, each with a thread that also decodes. With a latency of 20 ms this many bring
// 1,500 small objects a second.
constexpr int kParallelRequests = 32;
constexpr int64_t kParallelWrites = 16;
// Number of tries of a request, and maximum time of each try. A server that is reachable but silent is given
// up after 3 * 5 s.
constexpr int64_t kTries = 3;
constexpr double kConnectSeconds = 3;
constexpr double kSilenceSeconds = 5;  // without a byte received
constexpr const char* kOtherRetries =
    "retry_limit_seconds=5";  // of Google's library, for each of about two requests
// The libraries of gs:// and abfss:// have timeouts of minutes.
constexpr double kFirstAnswerSeconds = 15;

class BoundedRetry : public fs::S3RetryStrategy {
 public:
  bool ShouldRetry(const AWSErrorDetail& error, int64_t tried) override {
    return error.should_retry && tried < kTries - 1;
  }
  int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, int64_t tried) override {
    return int64_t{100} << std::min<int64_t>(tried, 4);
  }  // ms
};

// ---------------------------------------------------------------- life of the AWS library

std::atomic<int64_t> open_file_systems{0};

// The AWS library must be shut down before the process ends, or its own destructors crash; and the shutdown
// waits forever while a thread still reads. In that case, which is an exit from the middle of a program, only
// the buffers of files are worth saving.
void at_exit(int status, void*) {
  if (open_file_systems == 0) {
    (void)fs::EnsureS3Finalized();
    return;
  }
  std::fflush(nullptr);
  ::_exit(status);
}

void start_s3() {
  static const arrow::Status status = [] {
    auto options = fs::S3GlobalOptions::Defaults();
    options.log_level = fs::S3LogLevel::Fatal;  // its log shows requests with their headers
    return fs::InitializeS3(options);
  }();
  if (!status.ok()) throw Error(ErrorCode::io, "the library for s3:// cannot start: " + status.ToString());
}

// ---------------------------------------------------------------- opening

// A file system and the folder in it that an address names.
struct OpenedAddress {
  std::shared_ptr<arrow::internal::ThreadPool> threads;
  std::shared_ptr<fs::FileSystem> files;
  std::string root;  // "bucket/photos"
  std::string name;  // "s3://bucket/photos"
  std::string kind;  // "s3"

  OpenedAddress() { ++open_file_systems; }
  OpenedAddress(const OpenedAddress&) = delete;
  ~OpenedAddress() {
    files.reset();
    --open_file_systems;
  }
  std::string path_of(std::string_view path) const { return root + "/" + std::string(path); }
  std::string name_of(std::string_view path) const { return name + "/" + std::string(path); }
};

template <class T>
T value_of(arrow::Result<T> result, const std::string& verb, const std::string& name) {
  if (!result.ok()) throw failure_of(verb, name, result.status().ToString());
  return std::move(result).ValueUnsafe();
}

void check(const arrow::Status& status, const std::string& verb, const std::string& name) {
  if (!status.ok()) throw failure_of(verb, name, status.ToString());
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// Without a region the AWS library asks a service that only Amazon's machines have, and waits for it. A
// private server has no regions.
bool needs_no_region(const fs::S3Options& options) {
  const bool own_server =
      !options.endpoint_override.empty() || is_set("AWS_ENDPOINT_URL") || is_set("AWS_ENDPOINT_URL_S3");
  const char* home = std::getenv("HOME");
  const bool has_profiles = is_set("AWS_CONFIG_FILE") ||
                            (home != nullptr && std::filesystem::exists(std::string(home) + "/.aws/config"));
  return own_server && !has_profiles && !is_set("AWS_REGION") && !is_set("AWS_DEFAULT_REGION");
}

std::shared_ptr<fs::FileSystem> open_s3(const std::string& address, OpenedAddress& place,
                                        const arrow::io::IOContext& context) {
  start_s3();
  fs::S3Options options = value_of(fs::S3Options::FromUri(address, &place.root), "open", place.name);
  if (options.region.empty() && needs_no_region(options)) options.region = "us-east-1";
  options.connect_timeout = kConnectSeconds;
  options.request_timeout = kSilenceSeconds;
  options.retry_strategy = std::make_shared<BoundedRetry>();
  options.allow_delayed_open = true;  // a small file is one request
  return value_of(fs::S3FileSystem::Make(options, context), "open", place.name);
}

// Registered after everything that it ends, so that it runs before the destructors of that; also if an
// address could not be opened.
struct EndsAtExit {
  ~EndsAtExit() { ::on_exit(at_exit, nullptr); }
};

// A place that has answered once. One that has not is left alone until the process ends, because nothing can
// interrupt its library.
std::unique_ptr<OpenedAddress> answering(std::unique_ptr<OpenedAddress> place) {
  const auto answer = value_of(
      place->threads->Submit([files = place->files, root = place->root] { return files->GetFileInfo(root); }),
      "open", place->name);
  if (answer.Wait(kFirstAnswerSeconds)) {
    check(answer.status(), "open", place->name);
    return place;
  }
  throw failure_of("open", place.release()->name,
                   "no answer for " + std::to_string(static_cast<int>(kFirstAnswerSeconds)) + " s");
}

std::unique_ptr<OpenedAddress> open_address(const std::string& address) {
  const EndsAtExit ends_at_exit;
  auto place = std::make_unique<OpenedAddress>();
  place->name = io::public_name(address);
  place->kind = io::scheme_of(address);
  place->threads = value_of(arrow::internal::ThreadPool::Make(kParallelRequests), "open", place->name);
  const arrow::io::IOContext context(arrow::default_memory_pool(), place->threads.get());
  if (place->kind == "s3") {
    place->files = open_s3(address, *place, context);
  } else if (place->kind == "gs" || place->kind == "gcs") {
    if (address.find("://anonymous@") == std::string::npos) require_google_key(place->name);
    const bool bounded = address.find("retry_limit_seconds=") != std::string::npos;
    const std::string asked =
        bounded ? address : address + (address.find('?') == std::string::npos ? "?" : "&") + kOtherRetries;
    place->files = value_of(fs::FileSystemFromUri(asked, context, &place->root), "open", place->name);
  } else if (place->kind == "abfs" || place->kind == "abfss") {
    place->files = value_of(fs::FileSystemFromUri(address, context, &place->root), "open", place->name);
  } else {
    throw Error(ErrorCode::invalid_option,
                "\"" + place->name + "\" is an address of a kind that cannot be read",
                "s3://, gs:// and abfss:// can; other files must be brought here first");
  }
  while (place->root.ends_with('/')) place->root.pop_back();
  if (place->root.empty())
    throw Error(ErrorCode::invalid_option, "\"" + place->name + "\" names no bucket",
                "write s3://BUCKET/FOLDER");
  return place->kind == "s3" ? std::move(place) : answering(std::move(place));
}

// ---------------------------------------------------------------- reading

class ObjectStore : public io::ByteStore {
 public:
  explicit ObjectStore(std::unique_ptr<const OpenedAddress> place) : place_(std::move(place)) {}

  const std::string& name() const override { return place_->name; }
  std::string kind() const override { return place_->kind; }
  int64_t parallel_reads() const override { return kParallelRequests; }

  void list(io::Sizes, const io::Visit& visit) const override {
    fs::FileSelector all;
    all.base_dir = place_->root;
    all.recursive = true;
    const auto found = value_of(place_->files->GetFileInfo(all), "list", place_->name);
    const size_t skipped = place_->root.size() + 1;
    for (const fs::FileInfo& info : found) {
      if (info.path().size() <= skipped) continue;
      visit({std::string_view(info.path()).substr(skipped), info.IsFile() ? info.size() : -1,
             info.IsFile() ? io::Listed::Kind::file : io::Listed::Kind::folder,
             info.mtime() == fs::kNoTime ? std::nullopt
                                         : std::optional<int64_t>(info.mtime().time_since_epoch().count())});
    }
  }

  std::optional<int64_t> size_of(std::string_view path) const override {
    const fs::FileInfo info =
        value_of(place_->files->GetFileInfo(place_->path_of(path)), "open", place_->name_of(path));
    return info.IsFile() ? std::optional(info.size()) : std::nullopt;
  }

  std::string read(io::FileName file, int64_t most_bytes) const override {
    const auto opened = open(file);
    const int64_t size =
        file.size >= 0 ? file.size : value_of(opened->GetSize(), "read", place_->name_of(file.path));
    if (size > most_bytes) {
      throw Error(ErrorCode::corrupt_data, "\"" + place_->name_of(file.path) + "\" has " + as_bytes(size) +
                                               ", more than the " + as_bytes(most_bytes) +
                                               " allowed for such a file");
    }
    std::string bytes(static_cast<size_t>(size), '\0');
    const size_t have = size == 0 ? 0 : read_from(*opened, file, 0, bytes);
    if (have == bytes.size()) return bytes;
    throw Error(ErrorCode::communication,
                "\"" + place_->name_of(file.path) + "\" ended after " + std::to_string(have) + " of " +
                    std::to_string(size) + " bytes",
                "it was changed, or the connection broke; start again");
  }

  size_t read_at(io::FileName file, int64_t offset, std::span<char> destination) const override {
    if (destination.empty() || (file.size >= 0 && offset >= file.size)) return 0;
    return read_from(*open(file), file, offset, destination);
  }

 private:
  std::shared_ptr<arrow::io::RandomAccessFile> open(io::FileName file) const {
    const std::string path = place_->path_of(file.path);
    if (file.size < 0)
      return value_of(place_->files->OpenInputFile(path), "read", place_->name_of(file.path));
    // With the size from the listing no request for the size is needed.
    fs::FileInfo info(path, fs::FileType::File);
    info.set_size(file.size);
    return value_of(place_->files->OpenInputFile(info), "read", place_->name_of(file.path));
  }

  size_t read_from(arrow::io::RandomAccessFile& opened, io::FileName file, int64_t offset,
                   std::span<char> destination) const {
    return static_cast<size_t>(
        value_of(opened.ReadAt(offset, static_cast<int64_t>(destination.size()), destination.data()), "read",
                 place_->name_of(file.path)));
  }

  const std::unique_ptr<const OpenedAddress> place_;
};

// ---------------------------------------------------------------- writing

class CloudWriter : public io::FileWriter {
 public:
  CloudWriter(std::shared_ptr<arrow::io::OutputStream> stream, std::string name)
      : stream_(std::move(stream)), name_(std::move(name)) {}
  ~CloudWriter() override {
    if (stream_ != nullptr) (void)stream_->Abort();
  }
  void append(std::string_view bytes) override {
    check(stream_->Write(bytes.data(), static_cast<int64_t>(bytes.size())), "write", name_);
  }
  void finish() override {
    check(stream_->Close(), "write", name_);
    stream_.reset();
  }

 private:
  std::shared_ptr<arrow::io::OutputStream> stream_;
  const std::string name_;
};

class CloudSink : public io::ByteSink {
 public:
  explicit CloudSink(const std::string& address) : address_(address), place_(open_address(address)) {}

  const std::string& name() const override { return place_->name; }
  int64_t parallel_writes() const override { return kParallelWrites; }
  void finish() override {}

  std::shared_ptr<const io::ByteStore> present() const override {
    return std::make_shared<ObjectStore>(open_address(address_));
  }

  std::unique_ptr<io::FileWriter> create(std::string_view path, int64_t) override {
    const std::string name = place_->name_of(path);
    return std::make_unique<CloudWriter>(
        value_of(place_->files->OpenOutputStream(place_->path_of(path)), "write", name), name);
  }

 private:
  const std::string address_;
  const std::unique_ptr<const OpenedAddress> place_;
};

class Library : public io::CloudLibrary {
 public:
  std::string version() const override { return "Arrow " ARROW_VERSION_STRING; }
  std::shared_ptr<const io::ByteStore> open(const std::string& address) const override {
    return std::make_shared<ObjectStore>(open_address(address));
  }
  std::unique_ptr<io::ByteSink> open_sink(const std::string& address) const override {
    return std::make_unique<CloudSink>(address);
  }
};

}  // namespace
}  // namespace lockstep::object_store

extern "C" __attribute__((visibility("default"))) const lockstep::io::CloudLibrary*
lockstep_object_store_library_2() {
  static const lockstep::object_store::Library library;
  return &library;
}
