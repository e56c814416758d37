#include "lockstep/jobs/left_folders.h"

#include <fcntl.h>
#include <unistd.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/record/known_part.h"
#include "lockstep/record/process_identity.h"

namespace lockstep::jobs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMaker = "maker.json";

// Not for a maker on another machine.
bool is_maker_gone(const fs::path& folder) {
  constexpr int64_t kMostBytes = 65'536;
  try {
    record::ProcessIdentity maker;
    read_json(record::known_part<record::ProcessIdentity>(parse_json(read_file(folder / kMaker, kMostBytes))),
              maker, kMaker);
    return record::is_there(maker) == false;
  } catch (const Error&) {  // it has just begun, or was killed then
  } catch (const Json::exception&) {
  }
  return false;
}

}  // namespace

void sign_new_folder(const fs::path& folder) {
  OpenFile file(folder / kMaker, O_WRONLY | O_CREAT | O_EXCL);
  file.write(to_json(record::this_process()).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  file.close();
}

void remove_sign(const fs::path& folder) { ::unlink((folder / kMaker).c_str()); }

void remove_left_folders(const fs::path& root) {
  std::error_code none;
  for (fs::directory_iterator at(root, none), end; !none && at != end; at.increment(none)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(kGoneFolder) || (name.starts_with(kNewFolder) && is_maker_gone(at->path())))
      fs::remove_all(at->path(), ignored);
  }
}

}  // namespace lockstep::jobs
