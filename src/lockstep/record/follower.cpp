#include "lockstep/record/follower.h"

#include <cerrno>
#include <fcntl.h>
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
constexpr size_t kMostLine = size_t{1} << 25;

Error bad_line(const std::filesystem::path& path, int64_t line, Error error) {
  error.add_context("line " + std::to_string(line) + " of " + quote(path.native()));
  return error;
}

}  // namespace

int64_t Follower::poll(const Take& take) { return read_logs(take, /*with_last_lines=*/false); }

int64_t Follower::read_all(const Take& take) { return read_logs(take, /*with_last_lines=*/true); }

int64_t Follower::read_logs(const Take& take, bool with_last_lines) {
  int64_t count = 0;
  for (const LogFile& file : log_files(run_folder_)) {
    Log& log = logs_[{file.name.attempt, file.path.filename().string()}];
    log.writer = file.name.writer;
    // Opened each time: a network file system shows what others have added to a file when it is opened.
    const Descriptor opened(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!opened) {
      if (errno == ENOENT || errno == ESTALE) continue;
      throw errno_error(errno, "open", file.path.string());
    }
    begin_again_if_replaced(file.path, log, opened.get());
    std::string rest;
    count += read(file.path, opened.get(), log, take, rest);
    if (with_last_lines) give_last_line(log, take, rest, count);
  }
  return count;
}

void Follower::give_last_line(Log& log, const Take& take, std::string_view line, int64_t& count) {
  Event event;
  try {
    if (line.empty()) return;
    event = from_line(line);
  } catch (const Error&) {
    return;  // a killed writer has not finished it
  }
  log.offset += static_cast<int64_t>(line.size());
  event.writer = log.writer;
  ++count;
  take(event);
}

// A log that its writer cut after a failed writing has lost only an incomplete line, which was not given.
void Follower::begin_again_if_replaced(const std::filesystem::path& path, Log& log, int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw errno_error(errno, "read", path.string());
  const bool is_other = log.file_number != 0 && log.file_number != static_cast<uint64_t>(status.st_ino);
  if (is_other || status.st_size < log.offset) {
    log.offset = log.lines = 0;
    ++restarts_;
  }
  log.file_number = static_cast<uint64_t>(status.st_ino);
}

// held: what was read and has no end yet, from log.offset on.
int64_t Follower::read(const std::filesystem::path& path, int descriptor, Log& log, const Take& take,
                       std::string& held) {
  int64_t count = 0;
  std::vector<char> chunk(kChunk);
  while (true) {
    const ssize_t got = ::pread(descriptor, chunk.data(), chunk.size(),
                                static_cast<off_t>(log.offset) + static_cast<off_t>(held.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw errno_error(errno, "read", path.string());
    if (got == 0) return count;
    held.append(chunk.data(), static_cast<size_t>(got));
    size_t begin = 0;
    for (size_t end = 0; (end = held.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string_view line = std::string_view(held).substr(begin, end - begin);
      // Network file systems may show the length of an addition before its bytes.
      if (line.find('\0') != std::string_view::npos) return count;
      log.offset += static_cast<int64_t>(line.size()) + 1;
      ++log.lines;
      if (line.empty()) continue;
      Event event;
      try {
        event = from_line(line);
      } catch (const Error& error) {
        throw bad_line(path, log.lines, error);
      }
      event.writer = log.writer;
      ++count;
      take(event);
    }
    held.erase(0, begin);
    if (held.size() > kMostLine) {
      throw bad_line(path, log.lines + 1,
                     Error(ErrorCode::corrupt_data, "an event is longer than " + as_bytes(kMostLine),
                           "move the damaged event file away; its events are then missing"));
    }
  }
}

}  // namespace lockstep::record
