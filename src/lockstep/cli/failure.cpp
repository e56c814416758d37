#include "lockstep/cli/failure.h"

#include <algorithm>

#include "lockstep/base/printed_error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/help.h"

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

std::string failure_text(const Error& error, int width) {
  const auto paragraph = [&](const std::string& title, const std::string& text) {
    const std::string whole = printable_lines(text);
    const bool is_broken = width > 0 && whole.find_first_of('\n') == std::string::npos &&
                           whole.find("lockstep ") == std::string::npos;
    const int indent = width_of(title);
    return title + (is_broken ? wrap(whole, std::max(1, width - indent), indent) : whole) + "\n";
  };
  std::string text = paragraph(std::string(kErrorTitle), error.message());
  for (const std::string& line : error.context()) text += paragraph("  ", line);
  if (!error.hint().empty()) text += paragraph(std::string(kHintTitle), error.hint());
  return text;
}

}  // namespace lockstep::cli
