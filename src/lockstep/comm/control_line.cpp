#include "lockstep/comm/internal/control_line.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/internal/beats.h"

namespace lockstep::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostBeatsToFirstWord = 60;  // a rank may need long to connect with all others
constexpr std::chrono::milliseconds kLastWords{1000};
constexpr size_t kMostStrangers = 64;
constexpr size_t kMostUnsent = 1 << 16;

enum Kind : uint32_t { hello = 1, alive, leaves, failed };

struct Record {
  uint32_t kind = 0;
  int32_t rank = 0;
  std::array<char, 1016> text{};
};
static_assert(sizeof(Record) == 1024);

std::string text_of(const Record& record) {
  return {record.text.data(), ::strnlen(record.text.data(), record.text.size())};
}

std::string bytes_of(uint32_t kind, int64_t rank, const std::string& text) {
  Record record{.kind = kind, .rank = static_cast<int32_t>(rank), .text = {}};
  std::copy_n(text.data(), std::min(text.size(), record.text.size() - 1), record.text.data());
  return {reinterpret_cast<const char*>(&record), sizeof record};
}

}  // namespace

struct ControlLine::Line {
  Descriptor socket;
  int64_t rank = -1;  // before its hello
  std::string in, out;
  int silent_beats = 0;
  bool has_spoken = false;
};

ControlLine::ControlLine(Members members, Descriptor socket, std::function<void()> broken)
    : members_(std::move(members)),
      socket_(std::move(socket)),
      broken_(std::move(broken)),
      left_(members_.names.size()) {
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) throw errno_error(errno, "watch", "other ranks");
  if (!is_hub()) {
    lines_.push_back({.socket = std::move(socket_),
                      .rank = 0,
                      .in = {},
                      .out = bytes_of(hello, members_.rank, members_.token)});
    // Before anything can happen to this process: the hub knows a line's rank only by its hello.
    write(lines_.back());
  }
  thread_ = std::thread([this] { run(); });
}

ControlLine::~ControlLine() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  wake();
  thread_.join();
  ::close(wake_);
}

void ControlLine::wake() const {
  const uint64_t one = 1;
  while (::write(wake_, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void ControlLine::fail(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = reason;
    changed_.notify_all();
  }
  broken_();
  wake();
}

std::string ControlLine::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::string ControlLine::failure_within(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [&] { return !failure_.empty(); });
  return failure_;
}

bool ControlLine::has_left(int64_t rank) const {
  const std::lock_guard lock(mutex_);
  return left_[static_cast<size_t>(rank)];
}

void ControlLine::run() {
  auto next_beat = Clock::now() + kBeat;
  std::optional<Clock::time_point> end;
  while (true) {
    tell_news();
    {
      const std::lock_guard lock(mutex_);
      if (leaving_ && !end) end = Clock::now() + kLastWords;
    }
    if (end && (all_is_said() || Clock::now() >= *end)) return;
    std::vector<pollfd> waits{{wake_, POLLIN, 0}, {socket_.get(), POLLIN, 0}};  // poll passes over -1
    for (const Line& line : lines_)
      waits.push_back(
          {line.socket.get(), static_cast<short>(line.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    const auto rest =
        std::chrono::duration_cast<std::chrono::milliseconds>(next_beat - Clock::now()).count() + 1;
    if (::poll(waits.data(), waits.size(), static_cast<int>(std::clamp<int64_t>(rest, 0, kBeat.count()))) <
            0 &&
        errno != EINTR)
      continue;
    uint64_t count = 0;
    if (waits[0].revents != 0) [[maybe_unused]]
      const ssize_t got = ::read(wake_, &count, sizeof count);
    for (size_t i = lines_.size(); i > 0; --i) {
      Line& line = lines_[i - 1];
      if (waits[i + 1].revents == 0 || (read(line) && write(line))) continue;
      lost(line);
      lines_.erase(lines_.begin() + static_cast<std::ptrdiff_t>(i) - 1);
    }
    if (waits[1].revents != 0) take_line();
    if (Clock::now() < next_beat) continue;
    beat();
    next_beat = after_beat(next_beat);
  }
}

void ControlLine::take_line() {
  Descriptor taken(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int yes = 1;
  ::setsockopt(taken.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (taken.get() >= 0 && lines_.size() < members_.names.size() + kMostStrangers)
    lines_.push_back({.socket = std::move(taken), .in = {}, .out = {}});
}

// False when the line is dead.
bool ControlLine::read(Line& line) {
  std::array<char, 8 * sizeof(Record)> bytes;
  while (true) {
    const ssize_t got = ::recv(line.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (got <= 0) return false;
    line.in.append(bytes.data(), static_cast<size_t>(got));
    size_t at = 0;
    for (; line.in.size() - at >= sizeof(Record); at += sizeof(Record)) {
      if (!obey(line, line.in.data() + at)) return false;
    }
    line.in.erase(0, at);
  }
}

bool ControlLine::obey(Line& line, const char* bytes) {
  Record record;
  std::memcpy(&record, bytes, sizeof record);
  line.silent_beats = 0;
  line.has_spoken = true;
  const int64_t rank = record.rank;
  if (rank < 0 || rank >= static_cast<int64_t>(members_.names.size())) return false;
  if (line.rank < 0) {
    const bool there =
        std::any_of(lines_.begin(), lines_.end(), [&](const Line& other) { return other.rank == rank; });
    if (record.kind != hello || text_of(record) != members_.token || rank == 0 || there) return false;
    line.rank = rank;
    ++greeted_;
    // From now on silence is counted.
    line.out += bytes_of(alive, members_.rank, "");
    if (told_failure_) line.out += bytes_of(failed, members_.rank, failure());  // it connected late
    if (told_leaving_) line.out += bytes_of(leaves, members_.rank, "");
  } else if (record.kind == leaves) {
    const std::lock_guard lock(mutex_);
    left_[static_cast<size_t>(rank)] = true;
  } else if (record.kind == failed) {
    fail(text_of(record));
  }
  if (record.kind == leaves && is_hub()) tell(leaves, rank, "");
  return true;
}

bool ControlLine::write(Line& line) {
  while (!line.out.empty()) {
    const ssize_t sent =
        ::send(line.socket.get(), line.out.data(), line.out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    line.out.erase(0, static_cast<size_t>(sent));
  }
  return true;
}

void ControlLine::lost(const Line& line) {
  if (line.rank >= 0 && !has_left(line.rank)) fail(members_.names[static_cast<size_t>(line.rank)] + " died");
}

void ControlLine::beat() {
  tell(alive, members_.rank, "");
  for (size_t i = lines_.size(); i > 0; --i) {
    Line& line = lines_[i - 1];
    if (++line.silent_beats < (line.has_spoken ? kMostSilentBeats : kMostBeatsToFirstWord)) continue;
    if (line.rank >= 0 && !has_left(line.rank)) {
      fail(members_.names[static_cast<size_t>(line.rank)] + " has given no sign of life for " +
           std::to_string(line.silent_beats * kBeat.count() / 1000) +
           " s: it is stopped, or its machine is out of reach");
    }
    if (line.rank < 0) lines_.erase(lines_.begin() + static_cast<std::ptrdiff_t>(i) - 1);
  }
}

void ControlLine::tell(uint32_t kind, int64_t rank, const std::string& text) {
  for (Line& line : lines_) {
    if (line.rank < 0 || line.out.size() > kMostUnsent) continue;
    line.out += bytes_of(kind, rank, text);
    write(line);
  }
}

// What other threads want to tell the other ranks.
void ControlLine::tell_news() {
  std::string reason;
  bool leaving = false;
  {
    const std::lock_guard lock(mutex_);
    reason = failure_;
    leaving = leaving_;
  }
  if (!reason.empty() && !told_failure_) {
    told_failure_ = true;
    tell(failed, members_.rank, reason);
  }
  if (leaving && !told_leaving_ && reason.empty()) {
    told_leaving_ = true;
    tell(leaves, members_.rank, "");
  }
}

bool ControlLine::all_is_said() const {
  const bool all_are_there = !is_hub() || greeted_ + 1 >= members_.names.size();
  return all_are_there &&
         std::all_of(lines_.begin(), lines_.end(), [](const Line& line) { return line.out.empty(); });
}

}  // namespace lockstep::comm
