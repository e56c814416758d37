#include "lockstep/cli/console.h"

#include <algorithm>
#include <cerrno>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lockstep/base/error.h"

namespace lockstep::cli {
namespace {

int terminal_width(std::FILE* file) {
  struct winsize size {};
  const int descriptor = ::fileno(file);
  return descriptor >= 0 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

// Lines over 120 columns are hard to read, columns of help under 40 hold no words.
Console::Console(std::FILE* out, std::FILE* error, int width)
    : out_(out), error_(error), width_(std::clamp(width > 0 ? width : terminal_width(out), 40, 120)) {}

void Console::print(std::string_view text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), out_) == text.size();
  if (written && std::fflush(out_) == 0) return;
  if (errno == EPIPE) throw ClosedPipe{};
  const Error error = errno_error(errno, "write", "standard output");
  throw Error(ErrorCode::io, "cannot write to standard output" + error.message().substr(error.message().rfind(": ")), "free some space, or send the output elsewhere");
}

void Console::note(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), error_);
  std::fflush(error_);
}

bool Console::is_terminal() const { return ::isatty(::fileno(out_)) == 1; }
bool Console::note_is_terminal() const { return ::isatty(::fileno(error_)) == 1; }

}  // namespace lockstep::cli
int Console::table_width() const { return is_terminal() ? terminal_width(out_) : 0; }
