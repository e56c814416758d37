// Jobs, as the commands of the program tell of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/studio/commands.h"

namespace lockstep::studio {

/// What lockstep jobs --json --here prints.
std::string list_of_jobs(Commands& commands);

/// {"jobs": what lockstep jobs --json prints, "warnings": such as of login nodes that do not answer}. It asks
/// all login nodes.
std::string all_jobs(Commands& commands);

/// What lockstep job show --json prints. A job is "12", or "ours:12" behind the login node of a profile.
/// Throws invalid_option for what is no id of a job.
std::string about_job(const std::string& job, Commands& commands);

/// What a job has written, or one of its ranks (-1: all); the end of it, if it is long.
std::string diary_of(const std::string& job, int64_t rank, Commands& commands);

/// The words of "job cancel", "job requeue" or "job delete" for {"job"}, or of "job fetch" for {"job",
/// "word": folder}. Throws invalid_option for others.
std::vector<std::string> job_words(const std::string& command, const Json& body);

}  // namespace lockstep::studio
