#include "lockstep/record/follower.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/record/log_name.h"

namespace lockstep::record {
namespace {

constexpr size_t kChunk = size_t{1} << 18;
constexpr size_t kLargeChunk = size_t{1} << 22;  // for several threads
constexpr size_t kMostLine = size_t{1} << 25;
constexpr size_t kMostGiven = 256;
constexpr auto kMostWait =
    std::chrono::seconds(60);  // NFS keeps what it knows of a file for so long (acregmax)

}  // namespace

struct Follower::Takers {
  const Take& event;
  const TakeMeasured& measured;  // may be empty
};

/// One look at one log.
class Follower::Reading {
 public:
  Reading(const LogFile& file, int descriptor, Log& log, bool is_complete)
      : file_(file), descriptor_(descriptor), log_(log), is_complete_(is_complete) {}

  /// Whether another log has taken its name. The file's number does not tell: it is used again, and a copy
  /// that is renamed over the log goes on with it. A writer that cuts its log after a failed writing takes
  /// away only an incomplete line, which was not given.
  bool is_of_other_log() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) throw errno_error(errno, "read", file_.path.string());
    if (status.st_size < log_.place.offset) return true;
    std::string there(log_.place.given.size(), '\0');
    const off_t place = static_cast<off_t>(log_.place.offset) - static_cast<off_t>(there.size());
    const size_t got = read_at(place, there.data(), there.size());
    return got < there.size() || there != log_.place.given;
  }

  int64_t read(const Takers& takers) {
    if (log_.place.skips_line && !skip_line()) return 0;
    std::vector<char> chunk(chunk_size(takers));
    while (const size_t got =
               read_at(static_cast<off_t>(log_.place.offset) + static_cast<off_t>(held_.size()), chunk.data(),
                       chunk.size())) {
      const size_t searched = held_.size();
      held_.append(chunk.data(), got);
      const size_t done = takers.measured ? give_text(takers, searched) : give_lines(takers.event, searched);
      held_.erase(0, done);
      if (lacks_bytes(held_)) {
        if (!has_waited() || !skip_line()) return count_;
        held_.clear();
      }
      if (held_.size() > kMostLine) refuse_long_line();
    }
    if (is_complete_) give_last_line(takers.event);
    return count_;
  }

 private:
  size_t read_at(off_t place, char* bytes, size_t size) const {
    while (true) {
      const ssize_t got = ::pread(descriptor_, bytes, size, place);
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR) throw errno_error(errno, "read", file_.path.string());
    }
  }

  size_t chunk_size(const Takers& takers) const {
    struct stat status {};
    if (!takers.measured || ::fstat(descriptor_, &status) != 0) return kChunk;
    const auto left = static_cast<size_t>(std::max<int64_t>(0, int64_t{status.st_size} - log_.place.offset));
    return std::clamp(left, kChunk, kLargeChunk);
  }

  // As give_lines.
  size_t give_text(const Takers& takers, size_t searched) {
    const size_t last = held_.rfind('\n');
    if (last == std::string::npos || last < searched) return 0;
    size_t done = 0;
    for (const MeasuredLines& lines : read_measured_lines(std::string_view(held_).substr(0, last + 1))) {
      if (lines.keys) {
        pass(lines.text);
        count_ += static_cast<int64_t>(lines.rows());
        takers.measured(lines, file_.name);
        done += lines.text.size();
        continue;
      }
      const size_t given = give_lines(lines.text, takers.event);
      done += given;
      if (given < lines.text.size()) break;
    }
    return done;
  }

  // Returns the bytes of held_ that are done. No line ends before `searched`.
  size_t give_lines(const Take& take, size_t searched) { return give_lines(held_, take, searched); }

  size_t give_lines(std::string_view text, const Take& take, size_t searched = 0) {
    size_t begin = 0;
    for (size_t end = 0; (end = text.find('\n', std::max(begin, searched))) != std::string_view::npos;) {
      const std::string_view line = text.substr(begin, end - begin);
      if (lacks_bytes(line)) return begin;
      pass(text.substr(begin, end + 1 - begin));
      begin = end + 1;
      if (!line.empty()) give(event_of(line), take);
    }
    return begin;
  }

  Event event_of(std::string_view line) const {
    try {
      return from_line(line);
    } catch (const Error& error) {
      throw at_line(log_.place.lines, error);
    }
  }

  void give(Event event, const Take& take) {
    event.writer = file_.name.writer;
    event.attempt = file_.name.attempt;
    ++count_;
    take(event);
  }

  void give_last_line(const Take& take) {
    if (held_.empty()) return;
    Event event;
    try {
      event = from_line(held_);
    } catch (const Error&) {
      return;  // a killed writer has not finished it
    }
    pass(held_);
    give(std::move(event), take);
  }

  void pass(std::string_view bytes) {
    log_.place.offset += static_cast<int64_t>(bytes.size());
    log_.place.lines += std::count(bytes.begin(), bytes.end(), '\n');
    log_.place.given = bytes.substr(bytes.size() - std::min(bytes.size(), kMostGiven));
    log_.waits_since.reset();
  }

  static bool lacks_bytes(std::string_view line) { return line.find('\0') != std::string_view::npos; }

  bool has_waited() {
    if (!log_.waits_since) log_.waits_since = Clock::now();
    return is_complete_ || Clock::now() - *log_.waits_since > kMostWait;
  }

  // No line ends in a hole, which may be larger than a disk.
  off_t after_hole(off_t place) const {
    const off_t data = ::lseek(descriptor_, place, SEEK_DATA);
    if (data >= 0) return data;
    return errno == ENXIO ? std::max(place, ::lseek(descriptor_, 0, SEEK_END)) : place;
  }

  // Goes to the line after the one at the offset. False if that one has no end yet.
  bool skip_line() {
    std::vector<char> chunk(kChunk);
    off_t place = static_cast<off_t>(log_.place.offset);
    while (true) {
      place = after_hole(place);
      const size_t got = read_at(place, chunk.data(), chunk.size());
      if (got == 0) return false;
      const auto end = std::find(chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(got), '\n');
      place += end - chunk.begin();
      if (end == chunk.begin() + static_cast<std::ptrdiff_t>(got)) continue;
      log_.place.offset = place;
      log_.place.skips_line = false;
      pass("\n");
      return true;
    }
  }

  [[noreturn]] void refuse_long_line() {
    log_.place.skips_line = true;
    throw at_line(log_.place.lines + 1,
                  Error(ErrorCode::corrupt_data, "an event is longer than " + as_bytes(kMostLine),
                        "move the damaged event file away; its events are then missing"));
  }

  Error at_line(int64_t line, Error error) const {
    error.add_context("line " + std::to_string(line) + " of " + quote(file_.path.native()));
    return error;
  }

  const LogFile& file_;
  const int descriptor_;
  Log& log_;
  const bool is_complete_;
  std::string held_;  // what was read and has no end yet, from the offset on
  int64_t count_ = 0;
};

int64_t Follower::poll(const Take& take, const TakeMeasured& take_measured) {
  return read_logs({take, take_measured}, /*is_complete=*/false);
}

int64_t Follower::read_all(const Take& take) { return read_logs({take, {}}, /*is_complete=*/true); }

std::vector<LogPlace> Follower::places() const {
  std::vector<LogPlace> places;
  for (const auto& [key, log] : logs_) places.push_back(log.place);
  return places;
}

void Follower::continue_at(std::vector<LogPlace> places) {
  logs_.clear();
  for (LogPlace& place : places) {
    Log& log = logs_[{place.attempt, place.file}];
    log.place = std::move(place);
  }
}

int64_t Follower::read_logs(const Takers& takers, bool is_complete) {
  int64_t count = 0;
  const std::vector<LogFile> files = log_files(run_folder_);
  for (size_t i = 0; i < files.size(); ++i) {
    // Opened each time: a network file system shows what others have added to a file when it is opened.
    const Descriptor opened(::open(files[i].path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!opened) {
      if (errno == ENOENT || errno == ESTALE) continue;
      throw errno_error(errno, "open", files[i].path.string());
    }
    struct stat status {};
    if (::fstat(opened.get(), &status) == 0 && !S_ISREG(status.st_mode))
      throw Error(ErrorCode::io, quote(files[i].path.native()) + " is no regular file",
                  "move it away; it has no events");
    Log& log = logs_[{files[i].name.attempt, files[i].path.filename().string()}];
    log.place.attempt = files[i].name.attempt;
    log.place.file = files[i].path.filename().string();
    Reading reading(files[i], opened.get(), log, is_complete);
    if (reading.is_of_other_log()) {
      logs_.clear();
      ++restarts_;
      return count + read_logs(takers, is_complete);
    }
    count += reading.read(takers);
  }
  return count;
}

}  // namespace lockstep::record
