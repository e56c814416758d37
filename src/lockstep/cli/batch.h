// Submits jobs as `lockstep batch` does.
#pragma once

#include <functional>

#include "lockstep/cli/verb.h"
#include "lockstep/jobs/job_folder.h"

namespace lockstep::cli {

/// A job for each command of the call, in its order. `submitted` hears of each as soon as it is in its queue.
/// The profile's scheduler is called from this machine. Throws as `lockstep batch` fails.
using Submitted = std::function<void(const jobs::JobPaths& job)>;
void submit_batch(const Call& call, const Submitted& submitted);

}  // namespace lockstep::cli
