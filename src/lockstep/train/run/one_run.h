// One run of fit on one rank, from its folder to its result.
#pragma once

#include "lockstep/comm/communicator.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/training_request.h"
#include "lockstep/train/run/fit.h"

namespace lockstep::train {

/// Collective over `comm`: all ranks have the result. Rank 0 has the folder and decides; the others take its
/// options and its plan. A rank that throws breaks the group.
Result train_as_rank(const TrainingRequest& request, const Options& options, comm::Communicator& comm);

}  // namespace lockstep::train
