// Makes a job and gives it to the scheduler of a profile, without the commands on jobs.
// usage: lockstep_submit_job PROFILE.json ROOT NAME train|program COMMAND...
// Prints the job's folder and the scheduler's id.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/cluster/scheduler.h"
#include "lockstep/jobs/job_folder.h"

namespace {

using namespace lockstep;

void submit(const std::vector<std::string>& words) {
  const cluster::Profile profile = cluster::read_profile(words.at(0));
  jobs::JobSpec spec{
      .name = words.at(2), .command = {words.begin() + 4, words.end()}, .scheduler = profile.scheduler};
  if (words.at(3) == "train") {
    spec.run_folder = words.at(1) + "/run-" + spec.name;
    spec.command.insert(spec.command.end(), {"--output", spec.run_folder});
  }
  const jobs::JobPaths paths = jobs::make_job(words.at(1), spec, [&](const jobs::JobPaths& hidden) {
    write_file_atomic(hidden.profile(), to_json(profile).dump());
  });
  const std::string id = cluster::make_scheduler(profile)->submit(
      {.name = spec.name + "." + random_hex(4),
       .command = {profile.program, profile.scheduler + "-attempt", paths.folder.string()},
       .folder = paths.folder,
       .resources = profile,
       .may_requeue = jobs::may_start_again(spec)});
  std::printf("%s\n%s\n", paths.folder.c_str(), id.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    submit({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
