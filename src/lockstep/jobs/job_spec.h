// What a job is to do, and what became of an attempt at it: the contents of the files of a job folder.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/describe.h"

namespace lockstep::jobs {

/// JOB/job.json: written once, when the job is submitted.
struct JobSpec {
  std::string name{};                  ///< for people; not of this job alone
  std::vector<std::string> command{};  ///< program and words
  std::string working_folder{};        ///< where it runs
  std::string
      run_folder{};  ///< of the Lockstep run that it trains, from the job's folder on; empty: another program
  std::vector<std::string> secrets{};  ///< names of variables whose values are in no file
  std::string profile = "local";       ///< its content is in profile.json
  std::string scheduler = "local";
  std::string host{};  ///< the machine that submitted it; a local job runs there
  int64_t workers = 1;
  int64_t nodes = 1;
  int64_t memory = 0;  ///< bytes; 0: not known
  int64_t priority = 0;
  std::vector<std::string> after{};  ///< ids of jobs that must have ended with status 0
  bool requeue = false;
  std::vector<std::string> paths{};
  std::vector<std::string> shipped{};
  std::vector<std::string> fetch{};
  double submitted = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("name", self.name, "for people; several jobs may have it");
    field("command", self.command, "program and words");
    field("working_folder", self.working_folder, "where it runs");
    field("run_folder", self.run_folder, "of the run that it trains, from here on; empty: another program");
    field("secrets", self.secrets, "names of variables whose values are in no file");
    field("profile", self.profile, "where it runs; its content is in profile.json");
    field("scheduler", self.scheduler, "what starts it");
    field("host", self.host, "the machine that submitted it");
    field("workers", self.workers, "number of workers on all machines");
    field("nodes", self.nodes, "number of machines");
    field("memory", self.memory, "bytes; 0: not known");
    field("priority", self.priority, "a job with a higher one starts first");
    field("after", self.after, "jobs that must have ended well");
    field("requeue", self.requeue,
          "whether a program that is no Lockstep run starts again after it was killed");
    field("paths", self.paths, "folders that are first in PATH and LD_LIBRARY_PATH");
    field("shipped", self.shipped, "names of files in the folder shipped");
    field("fetch", self.fetch, "patterns of files that come back, below the working folder");
    field("submitted", self.submitted, "seconds since 1970");
  };
};

enum class AttemptEnd {
  ended,      ///< the command ended with status 0
  failed,     ///< in another way that a further attempt would not change
  stopped,    ///< it saved and made room (time limit, preemption); another attempt goes on
  lost,       ///< it was killed, or lost a machine; another attempt goes on
  cancelled,  ///< somebody cancelled the job
  fenced      ///< a later attempt began, so what this one wrote does not count
};
constexpr std::array<const char*, 6> enum_names(AttemptEnd) {
  return {"ended", "failed", "stopped", "lost", "cancelled", "fenced"};
}

/// Whether the job is over with it.
constexpr bool is_final(AttemptEnd end) {
  return end == AttemptEnd::ended || end == AttemptEnd::failed || end == AttemptEnd::cancelled;
}

/// JOB/attempt-N/result.json; JOB/result.json is a copy of the one that counts.
struct AttemptResult {
  AttemptEnd end = AttemptEnd::failed;
  int64_t attempt = 0;  ///< from 1; 0: the job was over before an attempt began
  int64_t status = 0;
  int64_t step = -1;
  std::string reason{};
  std::string nodes{};
  double started = 0;
  double ended = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("end", self.end, "how it ended");
    field("attempt", self.attempt, "its number, from 1");
    field("status", self.status, "exit status of the command, as a shell counts it");
    field("step", self.step, "last step of the run; -1: none, or no run");
    field("reason", self.reason, "one line");
    field("nodes", self.nodes, "machines");
    field("started", self.started, "seconds since 1970");
    field("ended", self.ended, "seconds since 1970");
  };
};

}  // namespace lockstep::jobs
