// Jobs and what the scheduler of their profile calls them.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "lockstep/cluster/scheduler.h"
#include "lockstep/jobs/job_folder.h"

namespace lockstep::cluster {

/// Where jobs go.
struct Place {
  Profile profile{};
  std::vector<std::string> runner{};  ///< see make_scheduler
};

/// Gives jobs, whose folders are made and which differ in nothing but their commands and names, to the
/// scheduler. Throws cluster.
void submit_jobs(const std::vector<jobs::JobPaths>& jobs, const Place& place);

/// Throws invalid_option if jobs of the profile are to be in another folder than `root`, where this program
/// has its jobs: the machines may not see it.
void check_jobs_folder(const Profile& profile, const std::filesystem::path& root);

/// The ids of the jobs of these ids or names, which another job of this scheduler is to follow. Throws
/// not_found, and invalid_option for a job of another scheduler.
std::vector<std::string> jobs_before(const std::filesystem::path& root, const std::vector<std::string>& words,
                                     const std::string& scheduler);

/// The scheduler's id of a job, which is looked for if the program that submitted it was killed before it had
/// the answer. Empty if the scheduler does not know it: it is being submitted, or never was. Throws cluster,
/// and cancelled at a stop.
std::string submitted_id(const jobs::JobPaths& job, const jobs::JobSpec& spec,
                         const std::stop_token& stop = {});

/// The profile with which a job was submitted; that of a job of this machine has only its scheduler.
Profile profile_of_job(const jobs::JobPaths& job, const jobs::JobSpec& spec);

/// Ends it. False if it was over before. One in the queue of another machine is marked: whoever runs it there
/// ends it, and nobody starts it. Throws cluster.
bool cancel_job(const jobs::JobPaths& job, const std::vector<std::string>& runner);

/// Makes it start again, also if it was never submitted because the program that did so was killed. False if
/// it is not over. Throws cluster, and what jobs::take_to_change throws.
bool requeue_job(const jobs::JobPaths& job, const std::vector<std::string>& runner);

}  // namespace lockstep::cluster
