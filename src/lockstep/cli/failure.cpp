#include "lockstep/cli/failure.h"

#include "lockstep/base/text.h"

namespace lockstep::cli {

Error as_error(const std::exception_ptr& exception, Error (*translate)(const std::exception_ptr&)) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (...) {
    const Error error = translate(exception);
    if (error.code() != ErrorCode::internal) return error;
    const std::string first_line = error.message().substr(0, error.message().find('\n'));
    return {ErrorCode::internal, "internal error: " + first_line,
            "this is a bug in Lockstep; please report it with the command that caused it"};
  }
}

namespace {

// File names may contain any character, and messages may have several lines.
std::string printable_lines(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines) line = printable(line);
  return join(lines, "\n");
}

}  // namespace

std::string failure_text(const Error& error) {
  std::string text = "lockstep: " + printable_lines(error.message()) + "\n";
  for (const std::string& line : error.context()) text += "  " + printable_lines(line) + "\n";
  if (!error.hint().empty()) text += "  hint: " + printable_lines(error.hint()) + "\n";
  return text;
}

}  // namespace lockstep::cli
