#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/internal/slurm.h"
#include "lockstep/cluster/scheduler.h"

namespace lockstep::cluster {
namespace {

struct Kind {
  const char* name;
  std::unique_ptr<Scheduler> (*make)(const Profile& profile);
};

constexpr std::array<Kind, 2> kKinds{{{"local", nullptr}, {"slurm", make_slurm}}};

}  // namespace

std::unique_ptr<Scheduler> make_scheduler(const Profile& profile) {
  for (const Kind& kind : kKinds) {
    if (profile.scheduler == kind.name && kind.make != nullptr) return kind.make(profile);
  }
  throw Error(ErrorCode::invalid_option, "there is no scheduler " + quote(profile.scheduler),
              "the schedulers are " + join(scheduler_names(), " and "));
}

std::vector<std::string> scheduler_names() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

}  // namespace lockstep::cluster
