// The one exception type of Lockstep, and how context is added to it on the way up.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

enum class ErrorCode {
  invalid_option,
  not_found,
  corrupt_data,
  io,
  out_of_memory,
  device,
  communication,
  timeout,
  cancelled,
  cluster,
  internal,
};

/// The code's name in event logs and tests, e.g. "corrupt_data".
std::string_view name_of(ErrorCode code);

/// The process's exit status for an error of this kind: 2 for what the user typed, 1 for everything else, 130
/// for cancelled.
int exit_status(ErrorCode code);

/// What could not be done, to what, why, and what to do about it.
/// Printed as `message`, then one indented line per context (innermost first), then `hint: ...`.
class Error : public std::exception {
 public:
  /// message  one sentence without a full stop; values quoted, counts given
  /// hint     what the user can do next; empty when there is nothing better than the message
  Error(ErrorCode code, std::string message, std::string hint = {});

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }
  const std::vector<std::string>& context() const { return context_; }
  const char* what() const noexcept override { return text_.c_str(); }
  /// The errno that errno_error translated; 0 for every other error.
  int errno_value() const { return errno_value_; }

  /// Adds one outer layer, e.g. "while filling mini-batch 12 of epoch 3".
  void add_context(std::string line);

 private:
  friend Error errno_error(int errno_value, std::string_view verb, std::string_view path);
  void compose();

  ErrorCode code_;
  int errno_value_ = 0;
  std::string message_;
  std::string hint_;
  std::vector<std::string> context_;
  std::string text_;
};

/// Runs `work`; an Error that leaves it carries the line that `context()` returns.
template <class Work, class Context>
decltype(auto) with_context(Context&& context, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (Error& error) {
    error.add_context(context());
    throw;
  }
}

/// Translates errno for what was tried ("write", "open") and a path. ENOSPC, EACCES, ENOENT and others have
/// their own hints.
[[nodiscard]] Error errno_error(int errno_value, std::string_view verb, std::string_view path);

}  // namespace lockstep
