#include "lockstep/jobs/left_folders.h"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/record/known_part.h"
#include "lockstep/record/process_identity.h"

namespace lockstep::jobs {
namespace {

namespace fs = std::filesystem;
using record::ProcessIdentity;

constexpr const char* kSign = "maker.json";
constexpr std::string_view kGoneFolder = ".gone-";
constexpr size_t kRandomBytes = 8;

bool is_folder_of(std::string_view beginning, const fs::path& folder) {
  const std::string name = folder.filename().string();
  std::error_code none;
  return name.size() == beginning.size() + 2 * kRandomBytes && name.starts_with(beginning) &&
         name.find_first_not_of("0123456789abcdef", beginning.size()) == std::string::npos &&
         fs::symlink_status(folder, none).type() == fs::file_type::directory;
}

// No process outlives its kernel. Nothing is known of another machine's.
bool is_gone(const ProcessIdentity& process) {
  if (const auto is_there = record::is_there(process)) return !*is_there;
  const ProcessIdentity here = record::this_process();
  return process.host == here.host && !process.boot.empty() && !here.boot.empty() &&
         process.boot != here.boot;
}

bool is_left(const fs::path& folder) {
  constexpr int64_t kMostBytes = 65'536;
  try {
    ProcessIdentity process;
    read_json(record::known_part<ProcessIdentity>(parse_json(read_file(folder / kSign, kMostBytes))), process,
              kSign);
    return is_gone(process);
  } catch (const Error&) {  // it has just begun, or was killed then
  } catch (const Json::exception&) {
  }
  return false;
}

// The sign comes last: if this process is killed, too, others go on.
std::error_code remove_signed(const fs::path& folder) {
  std::error_code code, failed, none;
  for (fs::directory_iterator at(folder, none), end; !none && at != end; at.increment(none)) {
    if (at->path().filename() != kSign) fs::remove_all(at->path(), code);
    if (code) failed = code;
  }
  if (!failed) fs::remove_all(folder, failed);
  return failed;
}

}  // namespace

void sign_folder(const fs::path& folder) {
  OpenFile file(folder / kSign, O_WRONLY | O_CREAT | O_TRUNC);
  file.write(to_json(record::this_process()).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  file.close();
}

void remove_sign(const fs::path& folder) { ::unlink((folder / kSign).c_str()); }

fs::path take_out(const fs::path& job) {
  const fs::path gone = job.parent_path() / (std::string(kGoneFolder) + random_hex(kRandomBytes));
  try {
    sign_folder(job);
  } catch (const Error&) {  // on a full disk, of which this may be the end; then others do not go on
  }
  rename_path(job, gone);
  return gone;
}

// Over a network a file may be there a little longer than its name.
void remove_taken_out(const fs::path& folder) {
  constexpr int kTries = 10;
  constexpr std::chrono::milliseconds kPause{100};
  std::error_code code, none;
  for (int one = 0; one < kTries; ++one) {
    if (one > 0) std::this_thread::sleep_for(kPause);
    code = remove_signed(folder);
    if (fs::symlink_status(folder, none).type() == fs::file_type::not_found) return;
  }
  throw errno_error(code ? code.value() : ENOTEMPTY, "remove", folder.string());
}

void remove_if_left(const fs::path& folder) {
  const bool is_gone_folder = is_folder_of(kGoneFolder, folder);
  if (!is_gone_folder && !is_folder_of(kNewFolder, folder)) return;
  if (is_left(folder)) remove_signed(folder);
  if (is_gone_folder) ::rmdir(folder.c_str());  // if it is empty: its deleter was killed at the very end
}

}  // namespace lockstep::jobs
