// A job is a folder: what it is to do, and an own folder for each attempt at it. Everything that others know
// of a job is found from these files alone, whatever started it (docs/jobs.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/jobs/job_spec.h"

namespace lockstep::jobs {

/// The paths in a job folder. A value; it does not access files.
struct JobPaths {
  std::filesystem::path folder;
  std::string id() const { return folder.filename().string(); }
  std::filesystem::path spec() const { return folder / "job.json"; }
  std::filesystem::path profile() const { return folder / "profile.json"; }
  std::filesystem::path environment() const { return folder / "environment.json"; }
  std::filesystem::path scheduler_id() const { return folder / "scheduler-id"; }  ///< the job that may run it
  std::filesystem::path lock() const { return folder / "lock"; }          ///< of the command that runs
  std::filesystem::path attempt() const { return folder / "attempt"; }    ///< number of the newest
  std::filesystem::path requeued() const { return folder / "requeued"; }  ///< up to which they do not count
  std::filesystem::path cancelled() const { return folder / "cancelled"; }
  std::filesystem::path result() const { return folder / "result.json"; }
  std::filesystem::path shipped() const { return folder / "shipped"; }
  std::filesystem::path attempt_folder(int64_t attempt) const {
    return folder / ("attempt-" + std::to_string(attempt));
  }
  /// What the command wrote. Lines of several ranks begin with "[rank 2] " or "2: ".
  std::filesystem::path diary(int64_t attempt) const { return attempt_folder(attempt) / "diary"; }
  std::filesystem::path started(int64_t attempt) const { return attempt_folder(attempt) / "started.json"; }
  std::filesystem::path result(int64_t attempt) const { return attempt_folder(attempt) / "result.json"; }
  std::filesystem::path values(int64_t attempt) const { return attempt_folder(attempt) / "values"; }
  std::filesystem::path files(int64_t attempt) const { return attempt_folder(attempt) / "files"; }
};

/// $LOCKSTEP_JOBS, else lockstep-jobs in the user's home folder. Throws not_found without either, and
/// invalid_option for a $LOCKSTEP_JOBS that is not absolute.
std::filesystem::path jobs_folder();

/// Makes the folder of a new job in `root`: ROOT/1, ROOT/2, ... `fill` is given the folder under another name
/// and adds files to it; then the whole appears at once, and survives a power cut. Throws io.
using Fill = std::function<void(const JobPaths& paths)>;
JobPaths make_job(const std::filesystem::path& root, const JobSpec& spec, const Fill& fill = {});

/// With the whole path of its run. Throws not_found or corrupt_data.
JobSpec read_spec(const JobPaths& paths);

/// 0: no attempt began.
int64_t newest_attempt(const JobPaths& paths);

/// Begins an attempt: draws its number, of which no other has the same, and makes its folder. Attempts with a
/// smaller number are over from now on, wherever they still run. Throws io.
int64_t begin_attempt(const JobPaths& paths);

/// Before the command of an attempt starts: a power cut does not give its number to a later one. Waits for
/// the disk. Throws io.
void sync_attempt(const JobPaths& paths);

/// How an attempt ended; nothing while it goes on, if it left none, or if the file is damaged.
std::optional<AttemptResult> read_attempt(const JobPaths& paths, int64_t attempt);

/// The result that counts; nothing while the job is not over.
std::optional<AttemptResult> read_result(const JobPaths& paths);

/// Writes the attempt's result. If the job is over with it and no later attempt began, it is the one that
/// counts.
void end_attempt(const JobPaths& paths, const AttemptResult& result);

/// Ends a job of which no attempt runs. Throws io.
void end_job(const JobPaths& paths, AttemptEnd end, const std::string& reason);

/// Makes a job that is over start again: attempts so far do not count any more.
void forget_result(const JobPaths& paths);

/// False for a job that was deleted.
bool has_spec(const JobPaths& paths);

/// Whether this attempt does not count any more. True for 0.
bool is_forgotten(const JobPaths& paths, int64_t attempt);

/// Marks a job as to be cancelled; whoever runs it ends it.
void mark_cancelled(const JobPaths& paths);
bool is_marked_cancelled(const JobPaths& paths);

/// The command of the next attempt: with the --output of its run, and with --resume where that has begun.
std::vector<std::string> command_of(const JobSpec& spec);

/// "NAME=value" that tell a command which job and attempt it is; also its paths and shipped files.
std::vector<std::string> job_environment(const JobPaths& paths, const JobSpec& spec, int64_t attempt);

/// Whether a killed command starts again.
bool may_start_again(const JobSpec& spec);

/// The last step of the job's run; -1: none, or no run.
int64_t step_of(const JobSpec& spec);

/// Whether another attempt is worth while after this one, which ended at `step`: a run has made steps in its
/// last three attempts; another program was killed fewer than ten times.
bool is_worth_another(const JobPaths& paths, const JobSpec& spec, int64_t attempt, int64_t step);

/// Writes a file that readers see whole or not at all, without waiting for the disk: after a power cut it may
/// be the old one.
void write_file_quick(const std::filesystem::path& path, std::string_view bytes);

}  // namespace lockstep::jobs
