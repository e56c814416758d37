#include "lockstep/cli/failure.h"

#include "lockstep/device/failure.h"

namespace lockstep::cli {

Error as_error(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (...) {
    const Error error = device::error_of(exception);
    if (error.code() != ErrorCode::internal) return error;
    const std::string first_line = error.message().substr(0, error.message().find('\n'));
    return {ErrorCode::internal, "something failed inside: " + first_line, "this is a fault of ours; please report it with the command that led to it"};
  }
}

std::string failure_text(const Error& error) {
  std::string text = "lockstep: " + error.message() + "\n";
  for (const std::string& line : error.context()) text += "  " + line + "\n";
  if (!error.hint().empty()) text += "  hint: " + error.hint() + "\n";
  return text;
}

}  // namespace lockstep::cli
