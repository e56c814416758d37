#include "lockstep/cluster/internal/owner.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"

namespace lockstep::cluster {

std::string own_job(const jobs::JobPaths& paths, const std::string& id) {
  const Descriptor file(::open(paths.scheduler_id().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file && errno != EEXIST) throw errno_error(errno, "create", paths.scheduler_id().string());
  if (!file) return first_line_of(paths.scheduler_id());
  const std::string text = id + "\n";
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw errno_error(errno, "write", paths.scheduler_id().string());
  return id;
}

}  // namespace lockstep::cluster
