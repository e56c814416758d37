#include "lockstep/cli/console.h"

#include <algorithm>
#include <cerrno>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"

namespace lockstep::cli {
namespace {

int terminal_width(std::FILE* file) {
  struct winsize size {};
  const int descriptor = ::fileno(file);
  return descriptor >= 0 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool is_dumb() { return environment_variable("TERM") == "dumb"; }

[[noreturn]] void cannot_write(int reason) {
  if (reason == EPIPE) throw ClosedPipe{};
  if (reason == EBADF)
    throw Error(ErrorCode::io, "cannot write to standard output: it is closed",
                "open it, for example with > /dev/null");
  const std::string why = errno_error(reason, "write", "standard output").message();
  throw Error(ErrorCode::io,
              "cannot write to standard output" + (reason == 0 ? "" : why.substr(why.rfind(": "))),
              "free some space, or send the output elsewhere");
}

}  // namespace

// Lines over 120 columns are hard to read; a help column narrower than 40 cannot hold its words.
Console::Console(std::FILE* out, std::FILE* error, int width)
    : out_(out), error_(error), width_(std::clamp(width > 0 ? width : terminal_width(out), 40, 120)) {}

void Console::print(std::string_view text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), out_) == text.size();
  if (written && std::fflush(out_) == 0) return;
  cannot_write(errno);
}

void Console::check_written() {
  if (std::ferror(out_) == 0) return;
  // The writer did not keep the reason; writing one more line fails for the same reason.
  errno = 0;
  std::fputc('\n', out_);
  cannot_write(std::fflush(out_) == 0 ? 0 : errno);
}

void Console::note(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), error_);
  std::fflush(error_);
}

int Console::table_width() const { return is_terminal() ? terminal_width(out_) : 0; }
bool Console::is_terminal() const { return ::isatty(::fileno(out_)) == 1; }
bool Console::note_is_terminal() const { return ::isatty(::fileno(error_)) == 1; }
bool Console::can_redraw() const { return is_terminal() && !is_dumb(); }
bool Console::note_can_redraw() const { return note_is_terminal() && !is_dumb(); }

}  // namespace lockstep::cli
