// Jobs as lists show them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/jobs/job_state.h"

namespace lockstep::jobs {

struct JobView {
  std::string id{};
  std::string name{};
  std::optional<JobState> state{};  ///< absent: its files cannot be read
  std::string reason{};             ///< why it failed, waits or is not readable
  std::vector<std::string> command{};
  std::string profile{};
  std::string scheduler{};
  std::string host{};
  int64_t workers = 1;
  int64_t nodes = 1;
  int64_t attempt = 0;
  std::optional<int64_t> step{};
  std::optional<int64_t> total_steps{};
  std::optional<double> progress{};
  std::optional<double> accuracy{};
  std::optional<double> seconds{};
  std::optional<double> seconds_left{};
  std::optional<int64_t> status{};
  double submitted = 0;
  std::optional<double> started{};
  std::optional<double> ended{};
  std::string folder{};
  std::string run_folder{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("id", self.id, "");
    field("name", self.name, "");
    field("state", self.state, "absent if its files cannot be read");
    field("reason", self.reason, "why it failed, waits or cannot be read");
    field("command", self.command, "");
    field("profile", self.profile, "");
    field("scheduler", self.scheduler, "");
    field("host", self.host, "the machine that submitted it");
    field("workers", self.workers, "");
    field("nodes", self.nodes, "");
    field("attempt", self.attempt, "the newest, from 1; 0: none began");
    field("step", self.step, "of its run");
    field("total_steps", self.total_steps, "of its run");
    field("progress", self.progress, "from 0 to 1: of its run, or the value `progress` that it has put out");
    field("accuracy", self.accuracy, "of its run, or the value `accuracy` that it has put out");
    field("seconds", self.seconds, "of the attempt that counts or goes on");
    field("seconds_left", self.seconds_left, "estimated");
    field("status", self.status, "exit status of its command");
    field("submitted", self.submitted, "seconds since 1970");
    field("started", self.started, "of the attempt, seconds since 1970");
    field("ended", self.ended, "seconds since 1970");
    field("folder", self.folder, "of the job");
    field("run_folder", self.run_folder, "of its run");
  };
};

/// The name of a profile as people know it: one that came through a login node (cli/relay.cpp) is called
/// NAME.via-HASH.
std::string shown_profile(const std::string& name);
inline constexpr const char* kVia = ".via-";

inline constexpr const char* kShownAs = "LOCKSTEP_SHOWN_AS";
/// How commands call a job: its number, behind what this variable has where a command came through a login
/// node: "far:12".
std::string shown_id(const JobPaths& paths);

/// By number. Jobs that cannot be read are in it without a state.
std::vector<JobView> list_jobs(const std::filesystem::path& root);

JobView view_of(const JobPaths& paths);

/// Whether nothing more happens to it by itself. A job of this machine that is lost is settled by the next
/// command on its queue; one that another scheduler has lost stays so.
bool is_over(const JobView& view);

/// The job of an id or of a name; of several with one name, the newest. Throws not_found with the nearest.
JobPaths find_job(const std::filesystem::path& root, const std::string& word);

}  // namespace lockstep::jobs
