#include "lockstep/jobs/attempt_error.h"

#include <string>
#include <unistd.h>

#include "lockstep/base/environment.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"

namespace lockstep::jobs {
namespace {

constexpr int64_t kMostErrorBytes = 1 << 20;

std::filesystem::path error_file(const JobPaths& paths, int64_t attempt) {
  return paths.attempt_folder(attempt) / kErrorFile;
}

ErrorCode code_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal); ++i) {
    if (name_of(static_cast<ErrorCode>(i)) == name) return static_cast<ErrorCode>(i);
  }
  return ErrorCode::internal;
}

}  // namespace

void write_error(const JobPaths& paths, int64_t attempt, const Error& error) {
  const Json json{{"code", name_of(error.code())},
                  {"message", error.message()},
                  {"hint", error.hint()},
                  {"context", error.context()}};
  write_file_quick(error_file(paths, attempt),
                   json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void leave_error(const Error& error) noexcept {
  try {
    const JobPaths paths{environment_variable("LOCKSTEP_JOB")};
    const auto attempt = parse_number<int64_t>(environment_variable("LOCKSTEP_JOB_ATTEMPT"));
    if (paths.folder.empty() || !attempt) return;
    if (::access(error_file(paths, *attempt).c_str(), F_OK) != 0) write_error(paths, *attempt, error);
  } catch (const std::exception&) {  // the diary has it too
  }
}

std::optional<Error> read_error(const JobPaths& paths, int64_t attempt) {
  return read_error(error_file(paths, attempt));
}

std::optional<Error> read_error(const std::filesystem::path& file) {
  if (::access(file.c_str(), F_OK) != 0) return std::nullopt;
  try {
    const Json json = parse_json(read_file(file, kMostErrorBytes));
    Error error(code_named(json.at("code").get<std::string>()), json.at("message").get<std::string>(),
                json.at("hint").get<std::string>());
    for (const Json& line : json.at("context")) error.add_context(line.get<std::string>());
    return error;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace lockstep::jobs
