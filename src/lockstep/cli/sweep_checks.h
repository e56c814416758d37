// What a sweep refuses before it writes anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cli/verb.h"
#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::cli {

/// The words that all trials share, as train reads them. Throws as train does.
Call call_of_train(const sweep::SweepSpec& spec);

/// A path of the command as it is seen from here: trials begin in the sweep's working folder.
std::string path_of_trial(const sweep::SweepSpec& spec, const std::string& path);

/// Whether the weights of its trials depend on the number of workers: averaged replicas, a mini-batch that
/// grows with the workers, the order of PyTorch's sampler.
bool depends_on_workers(const sweep::SweepSpec& spec);

/// Whether a trial may stop at any checkpoint and go on with other workers, with the same weights in the end.
bool may_move_workers(const sweep::SweepSpec& spec);

/// What makes the table depend on the clock, the machine or the workers, as options: --free, --max-time,
/// --precision auto, an exchange, a metric that is a time or a speed.
std::vector<std::string> reasons_for_another_table(const sweep::SweepSpec& spec);

/// How many different points a space of choices and whole numbers has at most; nothing if that is more than
/// any sweep has trials, or if a range has real numbers.
std::optional<int64_t> points_of(const sweep::Space& space);

/// Bytes that trials on threads may use; 0 if none are given. Throws invalid_option.
int64_t memory_of(const sweep::SweepSpec& spec);

/// Throws invalid_option if --memory is given where trials are not threads of one process. A sweep that goes
/// on in another way keeps its --memory, which then has no effect.
void check_memory(const sweep::SweepSpec& spec);

/// Throws invalid_option for what no sweep can do, and not_found if its working folder is gone.
void check_sweep(const sweep::SweepSpec& spec);

/// Throws invalid_option for what a sweep would do in vain: trials that all fail or have no result, options
/// without an effect. A sweep that was begun so can go on.
///   as_options  what is searched and was written like an option of the sweep, so that it may be misspelt
void check_new_sweep(const sweep::SweepSpec& spec, const std::vector<std::string>& as_options = {});

}  // namespace lockstep::cli
