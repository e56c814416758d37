#include "lockstep/sweep/internal/trial_output.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/sweep/internal/printed_result.h"

namespace lockstep::sweep {
namespace {

constexpr size_t kPart = size_t{1} << 20;  // of the beginning, and of the end
constexpr size_t kMostKept = 3 * kPart;    // then the end is cut back to one part
constexpr std::string_view kNote = "[lockstep left out ", kNoteEnd = " bytes here]\n";
constexpr int kLook = 50;                          // milliseconds until the reader sees that it is to end
constexpr int64_t kMostInPipe = int64_t{1} << 20;  // pipe-max-size of Linux, without privileges

std::string text_of_file(const std::filesystem::path& file) {
  std::error_code none;
  return std::filesystem::exists(file, none) ? read_file(file) : "";
}

}  // namespace

BoundedOutput::BoundedOutput(const std::filesystem::path& file, std::string name)
    : file_(file, O_WRONLY | O_CREAT | O_APPEND), name_(std::move(name)), text_(text_of_file(file)) {}

void BoundedOutput::take(std::string_view piece) {
  file_.write(piece);
  text_ += piece;
  if (text_.size() > kMostKept) leave_out();
}

// Whole lines, unless one is longer than a part.
void BoundedOutput::leave_out() {
  const size_t note = text_.find(kNote);
  size_t begin = text_.find_last_of(kEndsOfLines, kPart - 1) + 1;  // npos + 1 is 0
  if (begin == 0) begin = kPart;
  begin = std::min(begin, note);
  const size_t cut = text_.size() - kPart, line = text_.find_first_of(kEndsOfLines, cut);
  const size_t end = line == std::string::npos ? cut : line + 1;

  const std::string_view left_out = std::string_view(text_).substr(begin, end - begin);
  auto bytes = static_cast<int64_t>(left_out.size());
  if (begin == note) {  // what it says counts, not its own bytes; a program may print its words, too
    const size_t note_end = std::min(left_out.find(kNoteEnd), left_out.size());
    const auto before = parse_number<int64_t>(left_out.substr(kNote.size(), note_end - kNote.size()));
    if (before) bytes += *before - static_cast<int64_t>(note_end + kNoteEnd.size());
  }
  PrintedResult result;
  result.take(left_out, name_);
  std::string rest = std::string(kNote) + std::to_string(bytes) + std::string(kNoteEnd);
  if (!result.line.empty()) rest += result.line + "\n";
  if (line == std::string::npos) rest += "...";  // so that the rest of a line is not read as one
  rest += text_.substr(end);
  if (::ftruncate(file_.get(), static_cast<off_t>(begin)) != 0)
    throw errno_error(errno, "shorten", file_.path().string());
  file_.write(rest);
  text_.replace(begin, std::string::npos, rest);
}

TrialOutput::TrialOutput(const std::filesystem::path& file, std::string name)
    : kept_(file, std::move(name)), pipe_(launch::make_pipe()) {}

void TrialOutput::begin() {
  pipe_.writing = {};
  thread_ = std::jthread([this](const std::stop_token& stop) { read(stop); });
}

// Without the limit a process that has left the trial's group, and prints on, would hold up the trial's end.
void TrialOutput::read(const std::stop_token& stop) {
  std::vector<char> piece(size_t{1} << 16);
  for (int64_t left = kMostInPipe; left > 0;) {
    const bool is_last = stop.stop_requested();  // all that counts is in the pipe
    pollfd ready{.fd = pipe_.reading.get(), .events = POLLIN, .revents = 0};
    ::poll(&ready, 1, is_last ? 0 : kLook);
    const ssize_t got = ::read(pipe_.reading.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 || (got < 0 && (errno != EAGAIN || is_last))) return;
    if (got < 0) continue;
    take({piece.data(), static_cast<size_t>(got)});
    if (is_last) left -= got;
  }
}

void TrialOutput::take(std::string_view piece) {
  if (!error_.empty()) return;  // the program goes on, and its trial is lost
  try {
    kept_.take(piece);
  } catch (const std::exception& error) {
    error_ = error.what();
  }
}

std::string TrialOutput::finish() {
  thread_ = {};  // asks it to stop, and waits
  return error_;
}

}  // namespace lockstep::sweep
