#include "lockstep/io/copy.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/stop_scope.h"
#include "lockstep/base/text.h"

namespace lockstep::io {
namespace {

constexpr int64_t kPieceBytes = int64_t{8} << 20;
constexpr int64_t kFewestThreads = 4;
// When the source is an archive, this many following files are read while one file after another is written.
constexpr int64_t kAheadFiles = 64;
constexpr int64_t kAheadBytes = int64_t{256} << 20;

struct File {
  std::string path;
  int64_t size = 0;
  FileName name() const { return {path, size}; }
};

[[noreturn]] void other_length(const std::string& store, const File& file, int64_t bytes) {
  throw Error(ErrorCode::corrupt_data,
              "\"" + store + "/" + file.path + "\" changed during the copy: it was listed with " +
                  with_commas(file.size) + " bytes and has " + with_commas(bytes) + " now",
              "copy again when no program writes to it");
}

// Returns the file piece by piece, and the checksum of the whole file.
uint64_t read_pieces(const ByteStore& store, const File& file, const std::stop_token& stop,
                     const std::function<void(std::string_view)>& take) {
  std::string piece(static_cast<size_t>(std::min(file.size, kPieceBytes)), '\0');
  uint64_t checksum = 0;
  for (int64_t offset = 0; offset < file.size;) {
    if (stop.stop_requested()) throw Error(ErrorCode::cancelled, "stopped");
    const std::span<char> room(piece.data(), static_cast<size_t>(std::min<int64_t>(
                                                 file.size - offset, static_cast<int64_t>(piece.size()))));
    const size_t got = store.read_at(file.name(), offset, room);
    if (got != room.size()) other_length(store.name(), file, offset + static_cast<int64_t>(got));
    const std::string_view bytes(piece.data(), got);
    checksum = hash_of(bytes, checksum);
    take(bytes);
    offset += static_cast<int64_t>(got);
  }
  return checksum;
}

class Copying {
 public:
  Copying(const ByteStore& from, ByteSink& to, const CopyOptions& options)
      : from_(from), to_(to), options_(options) {}

  CopyProgress run() {
    const StopScope scope(options_.stop);
    list();
    if (options_.progress) options_.progress(progress_);
    try {
      if (to_.parallel_writes() == 1) {
        in_order();
      } else {
        at_once();
      }
    } catch (Error& error) {
      error.add_context(with_commas(progress_.files) + " of " + counted(progress_.all_files, "file") +
                        (progress_.all_files == 1 ? " was copied" : " were copied"));
      throw;
    }
    to_.finish();
    return progress_;
  }

 private:
  void list() {
    from_.list(Sizes::wanted, [&](const Listed& listed) {
      if (is_without(listed.path)) return true;
      if (listed.kind == Listed::Kind::file) {
        if (listed.size < 0)
          throw Error(ErrorCode::io,
                      "cannot find the size of \"" + from_.name() + "/" + std::string(listed.path) + "\"",
                      "check the permissions of the file and of its folder, or remove the file");
        files_.push_back({std::string(listed.path), listed.size});
        progress_.all_bytes += listed.size;
      }
      progress_.left_out += listed.kind == Listed::Kind::other;
      return true;
    });
    std::sort(files_.begin(), files_.end(), [](const File& a, const File& b) { return a.path < b.path; });
    progress_.all_files = static_cast<int64_t>(files_.size());
    if (files_.empty()) throw Error(ErrorCode::not_found, "\"" + from_.name() + "\" contains no files");
    there_ = to_.present();
    if (there_ == nullptr) return;
    try {
      there_->list(Sizes::wanted, [&](const Listed& listed) {
        if (listed.kind == Listed::Kind::file) there_sizes_[std::string(listed.path)] = listed.size;
        return true;
      });
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found)
        throw;  // in a bucket, a folder exists only once it contains a file
    }
  }

  bool is_without(std::string_view path) const {
    const std::string folder = "/" + options_.without + "/";
    return !options_.without.empty() && ("/" + std::string(path)).find(folder) != std::string::npos;
  }

  // Each file is copied by one thread; any number of threads may work.
  void at_once() {
    const int64_t threads = std::min<int64_t>(
        std::max({from_.parallel_reads(), to_.parallel_writes(), kFewestThreads}), progress_.all_files);
    for_files(0, progress_.all_files, threads, [&](size_t i) {
      const File& file = files_[i];
      const bool there = is_there(file);
      if (!there) copy(file);
      count(file.size, there);
    });
  }

  bool is_there(const File& file) const {
    const auto at = there_sizes_.find(file.path);
    if (at == there_sizes_.end() || at->second != file.size) return false;
    const auto nothing = [](std::string_view) {};
    return read_pieces(from_, file, options_.stop, nothing) ==
           read_pieces(*there_, file, options_.stop, nothing);
  }

  void copy(const File& file) {
    const auto writer = to_.create(file.path, file.size);
    const uint64_t checksum =
        read_pieces(from_, file, options_.stop, [&](std::string_view bytes) { writer->append(bytes); });
    writer->finish();
    if (!options_.verify || there_ == nullptr) return;
    if (read_pieces(*there_, file, options_.stop, [](std::string_view) {}) == checksum) return;
    throw Error(ErrorCode::corrupt_data,
                "\"" + to_.name() + "/" + file.path + "\" differs from what was written",
                "copy again; if it happens again, check the disk or the server");
  }

  // Into an archive, files are written one after another; small files are read ahead.
  void in_order() {
    for (size_t begin = 0; begin < files_.size();) {
      size_t end = begin;
      for (int64_t bytes = 0; end < files_.size() && static_cast<int64_t>(end - begin) < kAheadFiles; ++end) {
        if ((bytes += files_[end].size) > kAheadBytes && end > begin) break;
      }
      std::vector<std::string> contents(end - begin);
      const bool ahead = files_[begin].size <= kAheadBytes;
      if (ahead) {
        for_files(static_cast<int64_t>(begin), static_cast<int64_t>(end),
                  std::max(from_.parallel_reads(), kFewestThreads), [&](size_t i) {
                    read_pieces(from_, files_[i], options_.stop,
                                [&](std::string_view bytes) { contents[i - begin] += bytes; });
                  });
      }
      for (size_t i = begin; i < end; ++i) {
        const auto writer = to_.create(files_[i].path, files_[i].size);
        if (ahead) {
          writer->append(contents[i - begin]);
        } else {
          read_pieces(from_, files_[i], options_.stop,
                      [&](std::string_view bytes) { writer->append(bytes); });
        }
        writer->finish();
        count(files_[i].size);
      }
      begin = end;
    }
  }

  // After an exception no new file is started; the first exception is rethrown.
  void for_files(int64_t begin, int64_t end, int64_t threads, const std::function<void(size_t)>& work) const {
    std::atomic<int64_t> next{begin};
    std::exception_ptr error;
    std::mutex mutex;
    const auto run = [&] {
      const StopScope scope(options_.stop);
      try {
        for (int64_t i = next++; i < end; i = next++) {
          if (options_.stop.stop_requested()) throw Error(ErrorCode::cancelled, "stopped");
          work(static_cast<size_t>(i));
        }
      } catch (...) {
        next = end;
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> helpers;
      for (int64_t i = 1; i < threads; ++i) helpers.emplace_back(run);
      run();
    }
    if (error) std::rethrow_exception(error);
  }

  void count(int64_t bytes, bool there = false) {
    const std::lock_guard lock(mutex_);
    ++progress_.files;
    progress_.bytes += bytes;
    progress_.there_already += there;
    if (options_.progress) options_.progress(progress_);
  }

  const ByteStore& from_;
  ByteSink& to_;
  const CopyOptions& options_;
  std::vector<File> files_;
  std::shared_ptr<const ByteStore> there_;
  std::unordered_map<std::string, int64_t> there_sizes_;
  std::mutex mutex_;
  CopyProgress progress_;
};

}  // namespace

CopyProgress copy_files(const ByteStore& from, ByteSink& to, const CopyOptions& options) {
  return Copying(from, to, options).run();
}

}  // namespace lockstep::io
