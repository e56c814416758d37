#include "lockstep/cluster/internal/owner.h"

#include <cerrno>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::cluster {

// The name is linked to a file that is already written: whoever finds it finds the whole id.
std::string own_job(const jobs::JobPaths& paths, const std::string& id) {
  const std::string path = paths.scheduler_id().string();
  const std::string written = path + "." + id;
  write_file_synced(written, [&](const Sink& write) { write(id + "\n"); });
  const bool is_owner = ::link(written.c_str(), path.c_str()) == 0;
  const int number = errno;
  ::unlink(written.c_str());
  if (!is_owner && number != EEXIST) throw errno_error(number, "create", path);
  return is_owner ? id : first_line_of(path);
}

}  // namespace lockstep::cluster
