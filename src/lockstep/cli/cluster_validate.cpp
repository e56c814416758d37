#include <chrono>
#include <filesystem>
#include <unistd.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/cluster/cluster.h"
#include "lockstep/cluster/profile.h"
#include "lockstep/cluster/validate.h"
#include "lockstep/jobs/job_folder.h"
#include "lockstep/jobs/job_list.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using cluster::NamedProfile;
using cluster::Profile;
using cluster::Profiles;

struct ValidateChoice {
  int64_t wait = 300;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Waiting");
    field("wait", self.wait, "seconds to wait for the job of the trial to start", between(1, 86'400));
  };
};

struct WaitChoice {
  int64_t nodes = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Waiting");
    field("nodes", self.nodes, "machines to wait for; 0: those that a job of the profile uses",
          between(0, 100'000));
  };
};

NamedProfile profile_of(const Call& call) {
  return Profiles::of_user().find(call.words.empty() ? "" : call.words.front());
}

// A path of this program counts on other machines only if they share its disk, which the trial then shows.
Profile with_program(Profile profile) {
  std::error_code none;
  if (profile.program == "lockstep") profile.program = fs::read_symlink("/proc/self/exe", none).string();
  return profile;
}

}  // namespace

std::vector<FieldInfo> cluster_validate_fields() { return fields_of<ValidateChoice>(); }
std::vector<FieldInfo> cluster_wait_fields() { return fields_of<WaitChoice>(); }

int run_cluster_validate(const Call& call, Console& console) {
  const NamedProfile found = profile_of(call);
  const std::string& chosen = found.profile.job_folder;
  const fs::path root = chosen.empty() ? jobs::jobs_folder() : fs::path(chosen);
  const bool ok = cluster::validate(
      with_program(found.profile), {.folder = root / (".validate-" + random_hex(4)),
                                    .patience = std::chrono::seconds(settings_of<ValidateChoice>(call).wait),
                                    .begins = [&](const std::string& name) { console.print(name + " ... "); },
                                    .ended =
                                        [&](const cluster::Stage& stage) {
                                          console.print(std::string(stage.passed ? "ok" : "FAILED") + " (" +
                                                        fixed(stage.seconds, 1) + " s)  " +
                                                        printable(stage.detail) + "\n");
                                          if (!stage.hint.empty())
                                            console.print("  hint: " + stage.hint + "\n");
                                        }});
  console.print("the profile " + jobs::shown_profile(found.name) + (ok ? " works\n" : " does not work\n"));
  return ok ? 0 : 1;
}

int run_cluster_wait(const Call& call, Console& console) {
  const cluster::Cluster found(profile_of(call));
  const int64_t asked = settings_of<WaitChoice>(call).nodes;
  const int64_t wanted = asked > 0 ? asked : found.profile().nodes;
  launch::StopSignals signals("not waiting any longer");
  const auto tell = [&](int64_t up) {
    console.print(printable(jobs::shown_profile(found.name())) + ": " + with_commas(up) + " of " +
                  counted(wanted, "node") + " can take a job\n");
  };
  return found.wait({.nodes = wanted, .tell = tell, .stop = signals.token()})
             ? 0
             : launch::kSignalStatus + signals.signal();
}

}  // namespace lockstep::cli
