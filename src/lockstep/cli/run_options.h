// The options of train::Options as commands accept them: all of them for training, and the execution options
// for inference.
#pragma once

#include "lockstep/cli/asked_options.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/verb.h"
#include "lockstep/comm/rendezvous.h"
#include "lockstep/train/options/options.h"

namespace lockstep::cli {

/// As a command of RankSettings asks for it; what is waited for goes to the console.
comm::Joining joining_of(const Call& call, Console& console);

/// What was asked for (asked_options). Holds the CPU libraries to --isa; at a resume without it, to the
/// run's.
AskedOptions training_options(const Call& call);

/// The options that decide where and how inference runs (is_inference_option).
train::Options inference_options(const Call& call);

}  // namespace lockstep::cli
