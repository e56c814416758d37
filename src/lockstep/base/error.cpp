#include "lockstep/base/error.h"

#include <cerrno>
#include <cstring>

namespace lockstep {

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_option:
      return "invalid_option";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::corrupt_data:
      return "corrupt_data";
    case ErrorCode::io:
      return "io";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::device:
      return "device";
    case ErrorCode::communication:
      return "communication";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::cluster:
      return "cluster";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

int exit_status(ErrorCode code) {
  if (code == ErrorCode::invalid_option) return 2;
  if (code == ErrorCode::cancelled) return 130;
  return 1;
}

Error::Error(ErrorCode code, std::string message, std::string hint)
    : code_(code), message_(std::move(message)), hint_(std::move(hint)) {
  compose();
}

void Error::add_context(std::string line) {
  context_.push_back(std::move(line));
  compose();
}

void Error::compose() {
  text_ = message_;
  for (const std::string& line : context_) text_ += "\n  " + line;
  if (!hint_.empty()) text_ += "\n  hint: " + hint_;
}

namespace {

Error translated(int errno_value, std::string message) {
  switch (errno_value) {
    case ENOENT:
      return {ErrorCode::not_found, std::move(message), "check the path"};
    case EACCES:
    case EPERM:
      return {ErrorCode::io, std::move(message),
              "check the owner and the permissions of the file and its folder"};
    case ENOSPC:
    case EDQUOT:
      return {ErrorCode::io, std::move(message),
              "free some space, or write to another disk; what was saved before is intact"};
    case ENOTDIR:
      return {ErrorCode::io, std::move(message), "the path, or a part of it, is a file; name a folder"};
    case EISDIR:
      return {ErrorCode::io, std::move(message), "it is a folder; name a file"};
    case EROFS:
      return {ErrorCode::io, std::move(message), "the file system is read-only; name a folder elsewhere"};
    case EMFILE:
    case ENFILE:
      return {ErrorCode::io, std::move(message), "raise the limit of open files (ulimit -n)"};
    case ENOMEM:
      return {ErrorCode::out_of_memory, std::move(message), "use fewer workers or smaller mini-batches"};
    default:
      return {ErrorCode::io, std::move(message)};
  }
}

}  // namespace

Error errno_error(int errno_value, std::string_view verb, std::string_view path) {
  Error error = translated(errno_value, "cannot " + std::string(verb) + " \"" + std::string(path) +
                                            "\": " + std::strerror(errno_value));
  error.errno_value_ = errno_value;
  return error;
}

}  // namespace lockstep
