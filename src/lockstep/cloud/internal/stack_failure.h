// Why a stack of CloudFormation failed: a short reason, the line of the log that says it, and what to do.
#pragma once

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/cloud/cluster_state.h"

namespace lockstep::cloud {

/// state: what `state` of scripts/aws.py answers, of a stack that has failed.
Error creation_error(const Json& state, const ClusterRecord& record);
Error removal_error(const Json& state, const std::string& name);

}  // namespace lockstep::cloud
