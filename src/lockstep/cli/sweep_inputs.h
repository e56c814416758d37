// What the trials of a sweep read, checked before any of them begins.
#pragma once

#include <string>

#include "lockstep/sweep/sweep_folder.h"

namespace lockstep::cli {

/// Throws not_found for another program that is not there, and invalid_option for one that cannot be run.
/// Throws what train would for data and networks that are not there: the ones that all trials share, and each
/// that is searched. Addresses, such as s3://bucket/photos, are left to the trials. `program` is lockstep,
/// which is asked for its networks if some are named.
///   is_new  throws also what train would if it refuses the trials whatever is searched: trials with each
///           choice of each list and both ends of each range are refused with the same message. `program`
///           prepares one of them, and others only if it is refused. Data at addresses are left to the trials
void check_inputs(const sweep::SweepSpec& spec, const std::string& program, bool is_new);

}  // namespace lockstep::cli
