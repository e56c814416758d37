// Makes a job and gives it to the scheduler of a profile, without the commands on jobs.
// usage: lockstep_submit_job PROFILE.json ROOT NAME train|program COMMAND...
// Prints the job's folder and the scheduler's id.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/cluster/submitted_job.h"
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
  cluster::submit_jobs({paths}, {.profile = profile});
  std::printf("%s\n%s\n", paths.folder.c_str(), cluster::submitted_id(paths, spec).c_str());
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
