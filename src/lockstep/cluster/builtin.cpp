#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/internal/local.h"
#include "lockstep/cluster/internal/slurm.h"
#include "lockstep/cluster/scheduler.h"
#include "lockstep/cluster/slurm_step.h"

namespace lockstep::cluster {
namespace {

struct Kind {
  const char* name;
  bool is_for_profiles;
  std::unique_ptr<Scheduler> (*make)(const Profile& profile, const std::vector<std::string>& runner);
};

constexpr std::array<Kind, 3> kKinds{
    {{"local", true, make_local}, {"slurm", true, make_slurm}, {kSlurmStep, false, make_slurm_step}}};

}  // namespace

std::unique_ptr<Scheduler> make_scheduler(const Profile& profile, const std::vector<std::string>& runner) {
  for (const Kind& kind : kKinds) {
    if (profile.scheduler == kind.name) return kind.make(profile, runner);
  }
  throw Error(ErrorCode::invalid_option, "there is no scheduler " + quote(profile.scheduler),
              "the schedulers are " + join(scheduler_names(), " and "));
}

std::vector<std::string> scheduler_names() {
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) {
    if (kind.is_for_profiles) names.emplace_back(kind.name);
  }
  return names;
}

}  // namespace lockstep::cluster
