#include "lockstep/jobs/surroundings.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/jobs/job_list.h"
#include "lockstep/launch/launcher.h"

namespace lockstep::jobs {
namespace {

bool is_secret(const std::string& name, const std::vector<std::string>& named) {
  const std::string low = lower(name);
  for (const char* part : {"key", "secret", "token", "password", "passwd", "passphrase", "credential"}) {
    if (low.find(part) != std::string::npos) return true;
  }
  // Only whole words, because of PATH and PASSIVE.
  for (const std::string& word : split(low, '_')) {
    if (word == "pat" || word == "pass") return true;
  }
  return std::find(named.begin(), named.end(), name) != named.end();
}

}  // namespace

Surroundings surroundings_here(const std::vector<std::string>& named) {
  Surroundings here;
  const auto of_launcher = launch::launcher_variables(&std::getenv);
  for (char* const* entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (name == kShownAs || of_launcher.contains(name)) continue;
    if (is_secret(name, named)) {
      here.secrets.push_back(name);
    } else if (is_utf8(text)) {
      here.variables.push_back(text);
    }
  }
  return here;
}

void write_variables(const JobPaths& paths, const Surroundings& surroundings) {
  const Descriptor made(
      ::open(paths.environment().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!made) throw errno_error(errno, "create", paths.environment().string());
  OpenFile file(paths.environment(), O_WRONLY);
  file.write(Json(surroundings.variables).dump() + "\n");
  file.close();
}

std::vector<std::string> read_variables(const JobPaths& paths) {
  constexpr int64_t kMostVariableBytes = 16 << 20;
  if (::access(paths.environment().c_str(), F_OK) != 0) return {};
  try {
    return parse_json(read_file(paths.environment(), kMostVariableBytes)).get<std::vector<std::string>>();
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt_data,
                quote(paths.environment().string()) + " is damaged: " + error.what());
  }
}

}  // namespace lockstep::jobs
